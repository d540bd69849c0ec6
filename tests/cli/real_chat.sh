#!/usr/bin/env bash
# The real model's chat template, and an end token that ends the text. Needs the model.
. tests/cli/common.sh
need_model

# ChatML, with the model's own system message.
must 0 tokenize -m "$model" --chat -p 'Hello'
cp "$work/out" "$work/chat"
text='<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
Hello<|im_end|>
<|im_start|>assistant
'
must 0 tokenize -m "$model" -p "$text"
same_files "--chat" "$work/chat" "$work/out"
must 0 tokenize -m "$model" --chat --system 'Be brief.' -p 'Hello'
cp "$work/out" "$work/chat"
text='<|im_start|>system
Be brief.<|im_end|>
<|im_start|>user
Hello<|im_end|>
<|im_start|>assistant
'
must 0 tokenize -m "$model" -p "$text"
same_files "--system" "$work/chat" "$work/out"

must 0 generate -m "$model" --chat -p 'What is the capital of France? Answer in one short sentence.' -n 64 \
    --stats "$work/stats.json" -q
[ "$(field "$work/stats.json" finish_reason)" = stop ] || fault "no end token: $(cat "$work/out")"
grep -q Paris "$work/out" || fault "the capital of France: $(cat "$work/out")"
grep -q '<|im_end|>' "$work/out" && fault "the end token is printed"
finish
