/* jinja_parse.h - a template's text as tokens, and those as a tree.
 *
 * The tokens follow Jinja's lexer with trim_blocks and lstrip_blocks set, as chat templates are run
 * everywhere. The tree lies in the run's blocks; its depth is bounded, chains are lists. */
#ifndef NP_JINJA_PARSE_H
#define NP_JINJA_PARSE_H

#include "text/jinja/jinja_value.h"

/* ---- tokens ------------------------------------------------------------------------------------ */

typedef enum np_jinja_token_kind {
    NP_JINJA_T_END,
    NP_JINJA_T_DATA,
    NP_JINJA_T_VARIABLE_BEGIN,
    NP_JINJA_T_VARIABLE_END,
    NP_JINJA_T_BLOCK_BEGIN,
    NP_JINJA_T_BLOCK_END,
    NP_JINJA_T_NAME,
    NP_JINJA_T_TEXT, /* a string, without its quotes, escapes as they are written */
    NP_JINJA_T_INT,
    NP_JINJA_T_FLOAT,
    NP_JINJA_T_SIGN /* `sign` says which */
} np_jinja_token_kind;

typedef enum np_jinja_sign { /* two characters: the first and 0x80 */
    NP_JINJA_EQ = '=' | 0x80,
    NP_JINJA_NE = '!' | 0x80,
    NP_JINJA_LE = '<' | 0x80,
    NP_JINJA_GE = '>' | 0x80,
    NP_JINJA_FLOOR = '/' | 0x80,
    NP_JINJA_POWER = '*' | 0x80,
    NP_JINJA_IN = 1, /* words that are operators of a comparison */
    NP_JINJA_NOT_IN
} np_jinja_sign;

typedef struct np_jinja_token {
    np_jinja_token_kind kind;
    uint8_t sign;
    uint32_t line;
    np_bytes text;
} np_jinja_token;

typedef struct np_jinja_lexer {
    np_jinja *j;
    np_bytes source; /* line ends are \n, and the last one is gone */
    size_t at;
    uint32_t line;
    enum { NP_JINJA_IN_DATA, NP_JINJA_IN_BLOCK, NP_JINJA_IN_VARIABLE } mode;
    bool tag_waits; /* the data before a tag was given, the tag comes next */
    int n_open;
    char open[NP_JINJA_NESTING]; /* the brackets that close what is open */
} np_jinja_lexer;

bool np_jinja_lex_begin(np_jinja *j, np_bytes text, np_jinja_lexer *out);
bool np_jinja_lex(np_jinja_lexer *lexer, np_jinja_token *out);

/* ---- the tree ---------------------------------------------------------------------------------- */

typedef enum np_jinja_node_kind {
    /* expressions */
    NP_JINJA_CONSTANT,
    NP_JINJA_NAME,
    NP_JINJA_LIST_OF,  /* a: items; op: 1 for a tuple */
    NP_JINJA_DICT_OF,  /* a: key, value, key, value ... */
    NP_JINJA_ATTRIBUTE, /* a.text */
    NP_JINJA_INDEX,    /* a[b] */
    NP_JINJA_SLICE,    /* a[b], b: three parts, ABSENT constants where there is none */
    NP_JINJA_CALL,     /* a(b...), b: arguments */
    NP_JINJA_FILTER,   /* a | text(b...) ; a NULL: a block's */
    NP_JINJA_TEST,     /* a is text(b...) ; op: 1 for "is not" */
    NP_JINJA_ARGUMENT, /* text=a, or a; op: '*' or NP_JINJA_POWER for what is spread */
    NP_JINJA_NEGATE,   /* op: - or + */
    NP_JINJA_NOT,
    NP_JINJA_CHAIN, /* a, then b: operands with op and a */
    NP_JINJA_OPERAND,
    NP_JINJA_COMPARE, /* the same */
    NP_JINJA_JOINED,  /* a ~ b...: b: items */
    NP_JINJA_AND,     /* a: items */
    NP_JINJA_OR,
    NP_JINJA_IF_ELSE, /* a if b else c; c NULL */
    /* statements */
    NP_JINJA_DATA,
    NP_JINJA_OUTPUT,       /* a */
    NP_JINJA_IF,           /* a: condition, b: body, c: the else part (an IF, or a BODY) */
    NP_JINJA_BODY,         /* a */
    NP_JINJA_FOR,          /* a: target, b: over, c: body, d: "if", e: else */
    NP_JINJA_SET,          /* a: target, b: value */
    NP_JINJA_SET_BLOCK,    /* a: target, b: filters, c: body */
    NP_JINJA_FIELD,        /* target: text.name of b (a NAME) */
    NP_JINJA_MACRO_DEF,    /* text, a: parameters (NAME, its default in a), c: body */
    NP_JINJA_FILTER_BLOCK, /* b: filters, c: body */
    NP_JINJA_WITH,         /* a: target, value, target, value ...; c: body */
    NP_JINJA_SCOPE,        /* {% generation %}; c: body */
    NP_JINJA_BREAK,
    NP_JINJA_CONTINUE
} np_jinja_node_kind;

typedef struct np_jinja_node np_jinja_node;

struct np_jinja_node {
    uint8_t kind, op;
    bool used; /* of a FOR: has an "if"; of a filter: Jinja has it, this does not */
    uint32_t line;
    union {
        np_bytes text;
        np_jinja_value constant;
    };
    const np_jinja_node *a, *b, *c;
    const np_jinja_node *d, *e;
    np_jinja_node *next; /* in a list */
};

typedef struct np_jinja_parser {
    np_jinja *j;
    np_jinja_lexer lexer;
    np_jinja_token now, then;
    int depth, loops; /* loops: round what is parsed, in this macro */
    bool soft;        /* inside {% if %}: an unknown filter is an error only where it is reached */
    np_bytes unknown; /* the first that Jinja would refuse at once; n == 0: none */
    uint32_t unknown_line;
} np_jinja_parser;

/* The whole template; NULL for one without anything. */
bool np_jinja_parse(np_jinja *j, np_bytes text, const np_jinja_node **out);

/* ---- between the two files of the parser ------------------------------------------------------- */

bool np_jinja_advance(np_jinja_parser *p);
bool np_jinja_syntax(np_jinja_parser *p, const char *expected);
bool np_jinja_sign_is(const np_jinja_parser *p, int sign);
bool np_jinja_word_is(const np_jinja_parser *p, const char *word);
bool np_jinja_expect_sign(np_jinja_parser *p, int sign);
bool np_jinja_expect_name(np_jinja_parser *p, np_bytes *out);
np_jinja_node *np_jinja_new_node(np_jinja_parser *p, np_jinja_node_kind kind);
bool np_jinja_enter(np_jinja_parser *p);
/* One expression; with `tuple` several with commas between are a tuple. */
bool np_jinja_parse_expression(np_jinja_parser *p, bool tuple, const np_jinja_node **out);
bool np_jinja_parse_or(np_jinja_parser *p, const np_jinja_node **out);
/* Name(arguments) | name ... of a block; the innermost has a == NULL. */
bool np_jinja_parse_block_filter(np_jinja_parser *p, const np_jinja_node **out);
bool np_jinja_parse_filters(np_jinja_parser *p, const np_jinja_node **node);
bool np_jinja_parse_primary(np_jinja_parser *p, const np_jinja_node **out);
/* Fails for a filter or test that Jinja does not have, outside of {% if %}. */
bool np_jinja_check_unknown(np_jinja_parser *p);

/* ---- what the evaluator knows ------------------------------------------------------------------ */

typedef enum np_jinja_known { NP_JINJA_UNKNOWN, NP_JINJA_REFUSED, NP_JINJA_DONE } np_jinja_known;
np_jinja_known np_jinja_knows_filter(np_bytes name);
np_jinja_known np_jinja_knows_test(np_bytes name);

#endif
