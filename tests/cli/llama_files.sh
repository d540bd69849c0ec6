#!/usr/bin/env bash
# Files of the llama architecture: what a key or tensor says is applied, as llama.cpp does, or refused by
# name. llama_files.py has the cases.
. tests/cli/common.sh
check "llama files" python3 -B tests/cli/llama_files.py "$work"
finish
