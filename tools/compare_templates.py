#!/usr/bin/env python3
"""Renders conversations with chat templates, by Neap and by Jinja set up as Hugging Face's
transformers does, and compares: equal text, or both raise.

    pip install jinja2 && python3 tools/compare_templates.py LIBNEAP.so TOKENIZER.json TEMPLATE.jinja...

Real templates: models/templates/ of llama.cpp, in the source package of llama-cpp-python."""

import ctypes
import datetime
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def environment():
    e = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    e.filters["tojson"] = tojson
    e.globals["raise_exception"] = raise_exception
    e.globals["strftime_now"] = lambda f: datetime.datetime.now().strftime(f)
    e.globals["dict"] = lambda *a, **k: dict(*a, **k)
    e.globals["namespace"] = Namespace
    return e


def by_jinja(template, messages, ask, bos, eos):
    context = dict(messages=messages, tools=None, documents=None, add_generation_prompt=ask)
    for name, text in (("bos_token", bos), ("eos_token", eos)):
        if text is not None:
            context[name] = text
    try:
        return environment().from_string(template).render(**context)
    except Exception as e:  # whatever it is, Neap has to fail too
        return e


class Message(ctypes.Structure):
    _fields_ = [
        ("role", ctypes.c_char_p),
        ("content", ctypes.c_char_p),
        ("length", ctypes.c_size_t),
    ]


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("room", ctypes.c_size_t)]


class Neap:
    def __init__(self, library, tokenizer):
        self.lib = ctypes.CDLL(library)
        self.lib.neap_context_error.restype = ctypes.c_char_p
        self.ctx, self.tokenizer = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.lib.neap_context_new(None, ctypes.byref(self.ctx)) == 0
        path = tokenizer.encode()
        status = self.lib.neap_tokenizer_open(self.ctx, path, ctypes.byref(self.tokenizer))
        assert status == 0, self.lib.neap_context_error(self.ctx)
        self.bos = self.token(self.lib.neap_tokenizer_bos(self.tokenizer))
        self.eos = self.token(self.lib.neap_tokenizer_eos(self.tokenizer))

    def take(self, text):
        result = ctypes.string_at(text.data, text.length) if text.length else b""
        self.lib.neap_text_free(self.ctx, ctypes.byref(text))
        return result

    def token(self, token):
        if token < 0:
            return None
        text = Text()
        assert self.lib.neap_tokenizer_token_bytes(self.ctx, self.tokenizer, token, ctypes.byref(text)) == 0
        return self.take(text).decode()

    def render(self, template, messages, ask):
        """(status, text or message)"""
        array = (Message * len(messages))()
        for m, row in zip(messages, array):
            content = m["content"].encode()
            row.role, row.content, row.length = m["role"].encode(), content, len(content)
        text, source = Text(), template.encode()
        status = self.lib.neap_chat_render(
            self.ctx, self.tokenizer, source, ctypes.c_size_t(len(source)), array,
            ctypes.c_size_t(len(messages)), ctypes.c_bool(ask), ctypes.byref(text),
        )  # fmt: skip
        if status != 0:
            message = self.lib.neap_context_error(self.ctx).decode()
            self.lib.neap_context_clear_error(self.ctx)
            self.lib.neap_text_free(self.ctx, ctypes.byref(text))
            return status, message
        return 0, self.take(text).decode()


def conversations():
    s, u, a = (lambda c, r=r: dict(role=r, content=c) for r in ("system", "user", "assistant"))
    return [
        [u("Hi")],
        [s("Be brief."), u("Hi")],
        [u("  a \n"), a(" b\t"), u("c")],
        [s("You are."), u("Hi"), a("Hello!"), u("And\nnow?"), a("<think>hm</think>\n\nok"), u("go on")],
        [s(" \u00a0x\u3000 "), u("q"), a("<think>hm</think>ok"), u("<tool_call>x</tool_call>")],
        [u("a"), u("b")],
        [a("first"), u("x")],
        [s("s")],
        [s("a"), s("b"), u("u")],
        [u("u"), s("late"), a("w")],
        [u("u"), a("w")],
        [u(""), a(""), s("")],
        [s(""), u("x"), a("")],
        [s(""), u(" \u0085\x1f\u200a\u2028")],
        [u('it\'s "q" {{x}} {% y %} \\n'), a("Привет 🦙\n\n<|im_end|>")],
        [u("x"), dict(role="tool", content="{}"), u("y")],
        [dict(role="developer", content="Do."), u("y"), a("z"), u("w")],
        [u("/no_think ß ŉ İ"), a("</think>a</think>b"), u("<br> & 'q'")],
        [u("a\r\nb\n\n\n"), a("```c\nint x;\n```"), u("\t")],
    ]


EUNSUPPORTED = 7


def main():
    neap = Neap(sys.argv[1], sys.argv[2])
    equal = both_raise = refused = wrong = 0
    whole = 0
    refusals = {}
    for path in sys.argv[3:]:
        template = open(path, encoding="utf-8", newline="").read()
        bad = 0
        for messages in conversations():
            for ask in (True, False):
                want = by_jinja(template, messages, ask, neap.bos, neap.eos)
                status, got = neap.render(template, messages, ask)
                if isinstance(want, Exception) and status not in (0, EUNSUPPORTED):
                    both_raise += 1
                elif status == EUNSUPPORTED:
                    refused += 1
                    bad += 1
                    refusals[path.split("/")[-1]] = got
                elif status == 0 and not isinstance(want, Exception) and want == got:
                    equal += 1
                else:
                    wrong += 1
                    bad += 1
                    if bad < 2:
                        print(f"{path}: {messages!r} {ask}\n  expected {want!r}\n  got {status} {got!r}")
        whole += bad == 0
    for name, message in refusals.items():
        print(f"refused: {name}: {message}")
    print(
        f"{len(sys.argv) - 3} templates, {whole} of them without a difference; renderings: {equal} equal, "
        f"{both_raise} where both raise, {refused} refused by name, {wrong} wrong (jinja2 {jinja2.__version__})"
    )
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
