/* decode.c - ids to text: the bytes of a token, and a stream that gives only whole characters. */
#include "base/utf8.h"
#include "text/tokenizer.h"

static const char REPLACEMENT[3] = "\xEF\xBF\xBD"; /* U+FFFD */

bool np_text_append(neap_context *ctx, neap_text *out, const void *bytes, size_t n)
{
    if (!np_grow(ctx, NEAP_MEM_HOST, &out->data, &out->capacity, out->length + n, 1))
        return false;
    if (n)
        memcpy(out->data + out->length, bytes, n);
    out->length += n;
    return true;
}

void neap_text_free(neap_context *ctx, neap_text *text)
{
    np_free(ctx, NEAP_MEM_HOST, text->data, text->capacity);
    *text = (neap_text){NULL, 0, 0};
}

/* ---- the bytes of a token ------------------------------------------------------------------- */

typedef enum writing {
    LITERAL,  /* the piece is the text itself */
    ALPHABET, /* letters that are bytes */
    MARKED,   /* the text with a mark for a space, if there is one */
    HEX       /* "<0xE9>" */
} writing;

typedef struct piece_reader {
    np_bytes left;
    writing writing;
    const neap_tokenizer *t;
} piece_reader;

static bool in_alphabet(np_bytes piece)
{
    size_t n;
    for (uint64_t at = 0; at < piece.n; at += n)
        if (np_utf8_next(piece.p + at, piece.n - at, &n) != NP_UTF8_CHAR ||
            np_alphabet_to_byte(np_utf8_decode(piece.p + at, n)) < 0)
            return false;
    return true;
}

static bool is_hex(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

static bool is_byte(np_bytes piece)
{
    return piece.n == 6 && memcmp(piece.p, "<0x", 3) == 0 && is_hex(piece.p[3]) &&
           is_hex(piece.p[4]) && piece.p[5] == '>';
}

/* A normal token with a letter outside the alphabet is text as a whole. */
static piece_reader read_piece(const neap_tokenizer *t, int32_t id)
{
    np_token_type type = np_token_type_of(t, id);
    np_bytes piece = np_token_piece(t, id);
    if (t->rules.byte_text && is_byte(piece))
        return (piece_reader){.left = piece, .writing = HEX};
    if (!t->rules.alphabet)
        return (piece_reader){.left = piece, .writing = MARKED, .t = t};
    bool text = type == NP_TOKEN_CONTROL || type == NP_TOKEN_UNKNOWN ||
                type == NP_TOKEN_USER_DEFINED || !in_alphabet(piece);
    return (piece_reader){.left = piece, .writing = text ? LITERAL : ALPHABET};
}

static unsigned hex_digit(uint8_t c)
{
    return c <= '9' ? c - (unsigned)'0' : (c | 32u) - (unsigned)'a' + 10;
}

static bool at_mark(const piece_reader *r)
{
    const np_text_rules *rules = &r->t->rules;
    return rules->n_mark && r->left.n >= rules->n_mark &&
           memcmp(r->left.p, rules->mark, rules->n_mark) == 0;
}

static bool next_byte(piece_reader *r, uint8_t *byte)
{
    if (r->left.n == 0)
        return false;
    size_t n = 1;
    *byte = *r->left.p;
    if (r->writing == ALPHABET) {
        np_utf8_next(r->left.p, r->left.n, &n);
        *byte = (uint8_t)np_alphabet_to_byte(np_utf8_decode(r->left.p, n));
    } else if (r->writing == MARKED && at_mark(r)) {
        n = r->t->rules.n_mark;
        *byte = ' ';
    } else if (r->writing == HEX) {
        n = r->left.n;
        *byte = (uint8_t)(hex_digit(r->left.p[3]) << 4 | hex_digit(r->left.p[4]));
    }
    r->left.p += n;
    r->left.n -= n;
    return true;
}

static neap_status check_id(neap_context *ctx, const neap_tokenizer *t, int32_t id)
{
    if (id < 0 || (uint32_t)id >= t->n_tokens)
        return np_fail(ctx, NEAP_EINVAL, "token id %d: the vocabulary has %u tokens", id,
                       t->n_tokens);
    return NEAP_OK;
}

static neap_status tokenizer_token_bytes(neap_context *ctx, const neap_tokenizer *t, int32_t id,
                                       neap_text *out)
{
    neap_status status = check_id(ctx, t, id);
    if (status != NEAP_OK)
        return status;
    piece_reader r = read_piece(t, id);
    if (!np_grow(ctx, NEAP_MEM_HOST, &out->data, &out->capacity, out->length + r.left.n, 1))
        return NEAP_ENOMEM;
    uint8_t byte;
    while (next_byte(&r, &byte))
        out->data[out->length++] = (char)byte;
    return NEAP_OK;
}

neap_status neap_tokenizer_token_bytes(neap_context *ctx, const neap_tokenizer *t, int32_t id,
                                       neap_text *out)
{
    return NP_CALL(ctx, t && out, tokenizer_token_bytes(ctx, t, id, out));
}

/* ---- whole characters ----------------------------------------------------------------------- */

/* Room is reserved by the callers. */
static void write_text(neap_text *out, const void *bytes, size_t n)
{
    memcpy(out->data + out->length, bytes, n);
    out->length += n;
}

static void take_byte(neap_text_stream *s, uint8_t byte, neap_text *out)
{
    s->waiting[s->n_waiting++] = byte;
    for (;;) {
        size_t n;
        np_utf8_state state = np_utf8_next(s->waiting, (size_t)s->n_waiting, &n);
        if (state == NP_UTF8_PARTIAL)
            return;
        if (state == NP_UTF8_CHAR)
            write_text(out, s->waiting, n);
        else
            write_text(out, REPLACEMENT, sizeof REPLACEMENT);
        s->n_waiting -= (int)n;
        if (s->n_waiting == 0)
            return;
        memmove(s->waiting, s->waiting + n, (size_t)s->n_waiting);
    }
}

void neap_text_stream_init(neap_text_stream *s, const neap_tokenizer *tokenizer, unsigned flags)
{
    *s = (neap_text_stream){.tokenizer = tokenizer, .flags = flags};
}

static neap_status text_stream_push(neap_context *ctx, neap_text_stream *s, int32_t id,
                                  neap_text *out)
{
    neap_status status = check_id(ctx, s->tokenizer, id);
    if (status != NEAP_OK)
        return status;
    if (!(s->flags & NEAP_DECODE_SPECIAL) && neap_tokenizer_is_special(s->tokenizer, id))
        return NEAP_OK;
    piece_reader r = read_piece(s->tokenizer, id);
    size_t room = (r.left.n + sizeof s->waiting) * sizeof REPLACEMENT;
    if (!np_grow(ctx, NEAP_MEM_HOST, &out->data, &out->capacity, out->length + room, 1))
        return NEAP_ENOMEM;
    uint8_t byte;
    bool first = !s->started && s->tokenizer->rules.strip_first;
    for (; next_byte(&r, &byte); first = false) {
        s->started = true;
        if (!first || byte != ' ')
            take_byte(s, byte, out);
    }
    return NEAP_OK;
}

neap_status neap_text_stream_push(neap_context *ctx, neap_text_stream *s, int32_t id,
                                  neap_text *out)
{
    return NP_CALL(ctx, s && s->tokenizer && out, text_stream_push(ctx, s, id, out));
}

static neap_status text_stream_finish(neap_context *ctx, neap_text_stream *s, neap_text *out)
{
    if (s->n_waiting && !np_text_append(ctx, out, REPLACEMENT, sizeof REPLACEMENT))
        return NEAP_ENOMEM;
    s->n_waiting = 0;
    s->started = false;
    return NEAP_OK;
}

neap_status neap_text_stream_finish(neap_context *ctx, neap_text_stream *s, neap_text *out)
{
    return NP_CALL(ctx, s && out, text_stream_finish(ctx, s, out));
}

static neap_status tokenizer_decode(neap_context *ctx, const neap_tokenizer *t, const int32_t *ids,
                                  size_t count, unsigned flags, neap_text *out)
{
    neap_text_stream s;
    size_t length = out->length;
    neap_text_stream_init(&s, t, flags);
    neap_status status = NEAP_OK;
    for (size_t i = 0; i < count && status == NEAP_OK; i++)
        status = neap_text_stream_push(ctx, &s, ids[i], out);
    if (status == NEAP_OK)
        status = neap_text_stream_finish(ctx, &s, out);
    if (status != NEAP_OK)
        out->length = length;
    return status;
}

neap_status neap_tokenizer_decode(neap_context *ctx, const neap_tokenizer *t, const int32_t *ids,
                                  size_t count, unsigned flags, neap_text *out)
{
    return NP_CALL(ctx, t && out && (ids || count == 0), tokenizer_decode(ctx, t, ids, count, flags, out));
}
