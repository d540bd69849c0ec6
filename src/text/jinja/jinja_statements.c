/* jinja_statements.c - the blocks of a template as a tree. */
#include <stddef.h>

#include "base/shown.h"
#include "text/jinja/jinja_parse.h"

typedef np_jinja_parser parser;
typedef np_jinja_node node;

/* Statements until a block that begins with one of `ends`, which is left to be read; NULL: the end
 * of the template. `line` is that of the block that asks for its end. */
static bool parse_body(parser *p, const char *const *ends, const node **out);

static bool parse_target_part(parser *p, node *n, bool fields)
{
    if (p->now.kind == NP_JINJA_T_NAME &&
        (np_jinja_word_is(p, "true") || np_jinja_word_is(p, "false") || np_jinja_word_is(p, "none") ||
         np_jinja_word_is(p, "True") || np_jinja_word_is(p, "False") || np_jinja_word_is(p, "None")))
        return np_jinja_syntax(p, "a name to set");
    n->kind = NP_JINJA_NAME;
    if (!np_jinja_expect_name(p, &n->text))
        return false;
    if (!fields || !np_jinja_sign_is(p, '.'))
        return true;
    node *of = np_jinja_new_node(p, NP_JINJA_NAME);
    if (!of || !np_jinja_advance(p))
        return false;
    of->text = n->text;
    n->kind = NP_JINJA_FIELD;
    n->b = of;
    return np_jinja_expect_name(p, &n->text);
}

/* A name, a.b, or several of them between commas. */
static bool parse_target(parser *p, bool fields, const node **out)
{
    const bool round = np_jinja_sign_is(p, '(');
    if (round && !np_jinja_advance(p))
        return false;
    node *first = np_jinja_new_node(p, NP_JINJA_NAME), *last = first;
    if (!first || !parse_target_part(p, first, fields))
        return false;
    *out = first;
    if (np_jinja_sign_is(p, ',')) {
        node *whole = np_jinja_new_node(p, NP_JINJA_LIST_OF);
        if (!whole)
            return false;
        whole->a = first;
        *out = whole;
    }
    while (np_jinja_sign_is(p, ',')) {
        if (!np_jinja_advance(p))
            return false;
        if (p->now.kind != NP_JINJA_T_NAME || np_jinja_word_is(p, "in"))
            break;
        node *n = np_jinja_new_node(p, NP_JINJA_NAME);
        if (!n || !parse_target_part(p, n, fields))
            return false;
        last = last->next = n;
    }
    return !round || np_jinja_expect_sign(p, ')');
}

static bool expect_block_end(parser *p)
{
    return p->now.kind == NP_JINJA_T_BLOCK_END ? np_jinja_advance(p) : np_jinja_syntax(p, "%}");
}

/* A body between "%}" and {% word %}, whose own "%}" is left. */
static bool parse_block(parser *p, const char *word, const node **out)
{
    const char *const ends[] = {word, NULL};
    return expect_block_end(p) && parse_body(p, ends, out) && np_jinja_advance(p);
}

/* The same where the body is run by itself: no loop is round it, and no condition. */
static bool parse_apart(parser *p, const char *word, const node **out)
{
    const int loops = p->loops;
    const bool soft = p->soft;
    p->loops = 0;
    p->soft = false;
    const bool good = parse_block(p, word, out);
    p->loops = loops;
    p->soft = soft;
    return good;
}

static bool parse_for(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_FOR);
    *out = n;
    if (!n || !np_jinja_advance(p) || !parse_target(p, false, &n->a))
        return false;
    if (!np_jinja_word_is(p, "in"))
        return np_jinja_syntax(p, "in");
    if (!np_jinja_advance(p))
        return false;
    /* an "if" here is the loop's, so the expression is one without */
    const node *over;
    if (!np_jinja_parse_or(p, &over))
        return false;
    n->b = over;
    if (np_jinja_sign_is(p, ','))
        return np_jinja_fail(p->j, NEAP_EUNSUPPORTED, "a loop over a tuple without brackets");
    if (np_jinja_word_is(p, "if") &&
        (!np_jinja_advance(p) || !np_jinja_parse_expression(p, false, &n->d)))
        return false;
    if (np_jinja_word_is(p, "recursive"))
        return np_jinja_fail(p->j, NEAP_EUNSUPPORTED, "a recursive loop");
    const bool soft = p->soft;
    p->soft = false;
    static const char *const ends[] = {"else", "endfor", NULL};
    p->loops++;
    if (!expect_block_end(p) || !parse_body(p, ends, &n->c))
        return false;
    p->loops--;
    if (np_jinja_word_is(p, "else")) {
        if (!np_jinja_advance(p) || !parse_block(p, "endfor", &n->e))
            return false;
    } else if (!np_jinja_advance(p)) {
        return false;
    }
    p->soft = soft;
    return true;
}

/* One condition with its body; the next part goes into *end. */
static bool parse_branch(parser *p, node *n)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    return np_jinja_advance(p) && np_jinja_parse_or(p, &n->a) && expect_block_end(p) &&
           parse_body(p, ends, &n->b);
}

static bool parse_if(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_IF);
    *out = n;
    const bool soft = p->soft;
    p->soft = true;
    if (!n || !parse_branch(p, n))
        return false;
    while (np_jinja_word_is(p, "elif")) {
        node *other = np_jinja_new_node(p, NP_JINJA_IF);
        if (!other || !parse_branch(p, other))
            return false;
        n->c = other;
        n = other;
    }
    if (np_jinja_word_is(p, "else")) {
        node *other = np_jinja_new_node(p, NP_JINJA_BODY);
        if (!other || !np_jinja_advance(p) || !parse_block(p, "endif", &other->a))
            return false;
        n->c = other;
    } else if (!np_jinja_advance(p)) {
        return false;
    }
    p->soft = soft;
    return true;
}

static bool parse_set(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_SET);
    *out = n;
    if (!n || !np_jinja_advance(p) || !parse_target(p, true, &n->a))
        return false;
    if (np_jinja_sign_is(p, '='))
        return np_jinja_advance(p) && np_jinja_parse_expression(p, true, &n->b);
    n->kind = NP_JINJA_SET_BLOCK;
    if (n->a->kind == NP_JINJA_LIST_OF)
        return np_jinja_syntax(p, "=");
    if (np_jinja_sign_is(p, '|') && (!np_jinja_advance(p) || !np_jinja_parse_block_filter(p, &n->b)))
        return false;
    return parse_apart(p, "endset", &n->c);
}

static bool parse_parameters(parser *p, node *into)
{
    node *last = NULL;
    if (!np_jinja_expect_sign(p, '('))
        return false;
    while (!np_jinja_sign_is(p, ')')) {
        if (last && !np_jinja_expect_sign(p, ','))
            return false;
        node *n = np_jinja_new_node(p, NP_JINJA_NAME);
        if (!n || !np_jinja_expect_name(p, &n->text))
            return false;
        if (np_jinja_sign_is(p, '=')) {
            if (!np_jinja_advance(p) || !np_jinja_parse_expression(p, false, &n->a))
                return false;
        } else if (last && last->a) {
            return NP_JINJA_RAISE(p->j, "a parameter without a default behind one that has it");
        }
        if (last)
            last->next = n;
        else
            into->a = n;
        last = n;
    }
    return np_jinja_advance(p);
}

static bool parse_macro(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_MACRO_DEF);
    *out = n;
    return n && np_jinja_advance(p) && np_jinja_expect_name(p, &n->text) && parse_parameters(p, n) &&
           parse_apart(p, "endmacro", &n->c);
}

static bool parse_filter_block(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_FILTER_BLOCK);
    *out = n;
    return n && np_jinja_advance(p) && np_jinja_parse_block_filter(p, &n->b) &&
           parse_apart(p, "endfilter", &n->c);
}

static bool parse_with(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_WITH), *last = NULL;
    *out = n;
    if (!n || !np_jinja_advance(p))
        return false;
    while (p->now.kind != NP_JINJA_T_BLOCK_END) {
        if (last && !np_jinja_expect_sign(p, ','))
            return false;
        node *part = np_jinja_new_node(p, NP_JINJA_OPERAND);
        if (!part || !parse_target(p, false, &part->a) || !np_jinja_expect_sign(p, '=') ||
            !np_jinja_parse_expression(p, false, &part->b))
            return false;
        if (last)
            last->next = part;
        else
            n->a = part;
        last = part;
    }
    const bool soft = p->soft;
    p->soft = false;
    if (!parse_block(p, "endwith", &n->c))
        return false;
    p->soft = soft;
    return true;
}

static bool parse_generation(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_SCOPE);
    *out = n;
    return n && np_jinja_advance(p) && parse_apart(p, "endgeneration", &n->c);
}

static bool parse_jump(parser *p, const node **out)
{
    const bool leave = np_jinja_word_is(p, "break");
    node *n = np_jinja_new_node(p, leave ? NP_JINJA_BREAK : NP_JINJA_CONTINUE);
    *out = n;
    if (p->loops == 0)
        return NP_JINJA_RAISE(p->j, "a break or continue outside of a loop");
    return n && np_jinja_advance(p);
}

static bool parse_statement(parser *p, const node **out)
{
    static const struct {
        const char *word;
        bool (*parse)(parser *p, const node **out);
    } rows[] = {
        {"if",         parse_if          },
        {"for",        parse_for         },
        {"set",        parse_set         },
        {"macro",      parse_macro       },
        {"filter",     parse_filter_block},
        {"with",       parse_with        },
        {"generation", parse_generation  },
        {"break",      parse_jump        },
        {"continue",   parse_jump        },
    };
    static const char *const refused[] = {"call",   "block", "extends", "include",
                                          "import", "from",  "print",   "autoescape"};
    if (p->now.kind != NP_JINJA_T_NAME)
        return np_jinja_syntax(p, "a statement");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (np_jinja_word_is(p, rows[i].word))
            return rows[i].parse(p, out);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (np_jinja_word_is(p, refused[i]))
            return np_jinja_fail(p->j, NEAP_EUNSUPPORTED, "the statement {%% %s %%}", refused[i]);
    return np_jinja_syntax(p, "a statement");
}

static bool at_end(const parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (np_jinja_word_is(p, *ends))
            return true;
    return false;
}

static bool parse_output(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_OUTPUT);
    *out = n;
    if (!n || !np_jinja_advance(p) || !np_jinja_parse_expression(p, true, &n->a))
        return false;
    return p->now.kind == NP_JINJA_T_VARIABLE_END ? np_jinja_advance(p) : np_jinja_syntax(p, "}}");
}

static bool parse_data(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_DATA);
    *out = n;
    if (n)
        n->text = p->now.text;
    return n && np_jinja_advance(p);
}

static bool parse_body(parser *p, const char *const *ends, const node **out)
{
    const node *last = NULL;
    if (!np_jinja_enter(p))
        return false;
    while (p->now.kind != NP_JINJA_T_END) {
        const node *n = NULL;
        bool good;
        if (p->now.kind == NP_JINJA_T_DATA) {
            good = parse_data(p, &n);
        } else if (p->now.kind == NP_JINJA_T_VARIABLE_BEGIN) {
            good = parse_output(p, &n);
        } else if (!np_jinja_advance(p)) {
            return false;
        } else if (at_end(p, ends)) {
            p->depth--;
            return true;
        } else {
            good = parse_statement(p, &n) && expect_block_end(p);
        }
        if (!good || !np_jinja_check_unknown(p))
            return false;
        if (last)
            ((node *)last)->next = (node *)n;
        else
            *out = n;
        last = n;
    }
    p->depth--;
    return !ends || np_jinja_syntax(p, ends[0]);
}

bool np_jinja_parse(np_jinja *j, np_bytes text, const node **out)
{
    parser p = {.j = j};
    *out = NULL;
    return np_jinja_lex_begin(j, text, &p.lexer) && np_jinja_lex(&p.lexer, &p.then) &&
           np_jinja_advance(&p) && parse_body(&p, NULL, out);
}
