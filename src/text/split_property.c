/* split_property.c - names of \p{..} and [:..:] in Oniguruma's language, as PCRE2's sets. Where both
 * know a name, they may still mean something else: PCRE2's scripts are those of script extensions. */
#include "text/split_pattern.h"

#define ALPHA "\\p{Alphabetic}\\x{363}-\\x{36F}\\x{1DD3}-\\x{1DE6}\\x{F82}\\x{F83}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define NO_CHARACTERS "\\p{Cc}\\p{Cn}\\p{Cs}"

/* What a name stands for inside a class, and what all others are, if that is one set. */
static const struct {
    const char *name, *set, *others;
    bool posix; /* in [:..:], too */
} names[] = {
    {"alpha",         ALPHA,                               NULL,                    true },
    {"alphabetic",    ALPHA,                               NULL,                    false},
    {"digit",         "\\p{Nd}",                           "\\P{Nd}",               true },
    {"alnum",         ALPHA "\\p{Nd}",                     NULL,                    true },
    {"upper",         "\\p{Uppercase}",                    "\\P{Uppercase}",        true },
    {"uppercase",     "\\p{Uppercase}",                    "\\P{Uppercase}",        false},
    {"lower",         "\\p{Lowercase}\\x{10FC}\\x{A7F2}-\\x{A7F4}\\x{AB69}", NULL,  true },
    {"lowercase",     "\\p{Lowercase}\\x{10FC}\\x{A7F2}-\\x{A7F4}\\x{AB69}", NULL,  false},
    {"space",         "\\p{WSpace}",                       "\\P{WSpace}",           true },
    {"whitespace",    "\\p{WSpace}",                       "\\P{WSpace}",           false},
    {"blank",         "\\p{Zs}\\t",                        NULL,                    true },
    {"cntrl",         "\\p{Cc}",                           "\\P{Cc}",               true },
    {"xdigit",        "0-9a-fA-F",                         NULL,                    true },
    {"word",          WORD,                                NULL,                    true },
    {"ascii",         "\\x{0}-\\x{7F}",                    NULL,                    true },
    {"graph",         NULL,                                "\\p{WSpace}" NO_CHARACTERS, true },
    {"print",         NULL, "\\x{2028}\\x{2029}" NO_CHARACTERS,                     true },
    {"punct",         "\\p{P}",                            "\\P{P}",                false},
    {"punctuation",   "\\p{P}",                            "\\P{P}",                false},
    {"letter",        "\\p{L}",                            "\\P{L}",                false},
    {"number",        "\\p{N}",                            "\\P{N}",                false},
    {"symbol",        "\\p{S}",                            "\\P{S}",                false},
    {"mark",          "\\p{M}",                            "\\P{M}",                false},
    {"separator",     "\\p{Z}",                            "\\P{Z}",                false},
    {"other",         "\\p{C}",                            "\\P{C}",                false},
    {"decimalnumber", "\\p{Nd}",                           "\\P{Nd}",               false},
    {"any",           "\\p{Any}",                          NULL,                    false},
    {"emoji",         "\\p{Emoji}",                        "\\P{Emoji}",            false},
};

/* General categories, in small letters. */
static const char categories[] =
    " c cc cf cn co cs l ll lm lo lt lu m mc me mn n nd nl no p pc pd pe pf pi po ps s sc sk sm so "
    "z zl zp zs ";

enum { NAME_BYTES = 40 };

/* The name without what does not count in one: case, spaces, hyphens, underscores. */
static bool plain_name(np_bytes name, char out[NAME_BYTES])
{
    size_t n = 0;
    for (uint64_t i = 0; i < name.n; i++) {
        uint8_t c = name.p[i];
        if (c == ' ' || c == '-' || c == '_')
            continue;
        if (c >= 'A' && c <= 'Z')
            c = (uint8_t)(c | 32);
        if (c < 'a' || c > 'z' || n + 1 == NAME_BYTES)
            return false;
        out[n++] = (char)c;
    }
    out[n] = 0;
    return n > 0;
}

static bool is_category(const char *name)
{
    char padded[NAME_BYTES + 2] = " ";
    strcat(strcat(padded, name), " ");
    return strlen(name) <= 2 && strstr(categories, padded) != NULL;
}

/* POSIX's punct has symbols, too; elsewhere it has not. */
bool np_split_property(np_bytes name, bool posix, np_split_set *out)
{
    char plain[NAME_BYTES];
    *out = (np_split_set){0};
    if (!plain_name(name, plain))
        return false;
    if (posix && strcmp(plain, "punct") == 0) {
        strcpy(out->set, "\\p{P}\\p{S}");
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, plain) != 0 || (posix && !names[i].posix))
            continue;
        strcpy(out->set, names[i].set ? names[i].set : "");
        strcpy(out->others, names[i].others ? names[i].others : "");
        return true;
    }
    if (posix)
        return false;
    bool category = is_category(plain);
    if (category)
        plain[0] = (char)(plain[0] & ~32);
    const char *kind = category ? "" : "sc:"; /* PCRE2 refuses what is no script either */
    strcat(strcat(strcat(strcpy(out->set, "\\p{"), kind), plain), "}");
    strcat(strcat(strcat(strcpy(out->others, "\\P{"), kind), plain), "}");
    return true;
}
