/* test_utf8.c - the UTF-8 rules of the Unicode standard, against cases taken from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/utf8.h"

static void test_states(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        np_utf8_state want;
        size_t length;
    } rows[] = {
        {"a",                1, NP_UTF8_CHAR,    1},
        {"\0",               1, NP_UTF8_CHAR,    1},
        {"\x7F",             1, NP_UTF8_CHAR,    1},
        {"\xC2\x80",         2, NP_UTF8_CHAR,    2},
        {"\xE0\xA0\x80",     3, NP_UTF8_CHAR,    3},
        {"\xED\x9F\xBF",     3, NP_UTF8_CHAR,    3},
        {"\xEF\xBF\xBF",     3, NP_UTF8_CHAR,    3},
        {"\xF0\x90\x80\x80", 4, NP_UTF8_CHAR,    4},
        {"\xF4\x8F\xBF\xBF", 4, NP_UTF8_CHAR,    4},
        {"\xF0\x9F",         2, NP_UTF8_PARTIAL, 2},
        {"\xE2\x82",         2, NP_UTF8_PARTIAL, 2},
        {"\xC4",             1, NP_UTF8_PARTIAL, 1},
        {"\x80",             1, NP_UTF8_INVALID, 1},
        {"\xC0\x80",         2, NP_UTF8_INVALID, 1}, /* overlong */
        {"\xC1\xBF",         2, NP_UTF8_INVALID, 1},
        {"\xE0\x9F\xBF",     3, NP_UTF8_INVALID, 1},
        {"\xF0\x8F\xBF\xBF", 4, NP_UTF8_INVALID, 1},
        {"\xED\xA0\x80",     3, NP_UTF8_INVALID, 1}, /* a surrogate */
        {"\xF4\x90\x80\x80", 4, NP_UTF8_INVALID, 1}, /* over U+10FFFF */
        {"\xF5\x80\x80\x80", 4, NP_UTF8_INVALID, 1},
        {"\xFF",             1, NP_UTF8_INVALID, 1},
        {"\xF0\x9F x",       4, NP_UTF8_INVALID, 2}, /* maximal part: two bytes at once */
        {"\xF1\x80\x80\x41", 4, NP_UTF8_INVALID, 3},
        {"\xE2\x82\x41",     3, NP_UTF8_INVALID, 2},
        {"\xC4\xC4",         2, NP_UTF8_INVALID, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length;
        assert_int_equal(np_utf8_next((const uint8_t *)rows[i].bytes, rows[i].n, &length),
                         rows[i].want);
        assert_int_equal(length, rows[i].length);
    }
}

/* Every code point is written, recognised and read back; the lengths are those of the standard. */
static void test_every_code_point(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        uint8_t bytes[4];
        size_t length, n = np_utf8_encode(code, bytes);
        assert_int_equal(n, code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4);
        assert_int_equal(np_utf8_next(bytes, n, &length), NP_UTF8_CHAR);
        assert_int_equal(length, n);
        assert_int_equal(np_utf8_decode(bytes, n), code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_every_code_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
