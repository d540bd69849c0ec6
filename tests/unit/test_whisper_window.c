/* test_whisper_window.c - the loop over one window with a made-up decoder: what it is fed, when it
 * is tried again, and the tokens of a vocabulary found by their text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "run/whisper_window.h"
#include "text/tokenizer.h"

enum { END = 10, START, EN, DE, TRANSLATE, TRANSCRIBE, LM, PREVIOUS, NO_SPEECH, NO_TIMES, T0 };
enum { VOCABULARY = T0 + 1501, POSITIONS = 64, FED_MAX = 4096 };

static neap_context *ctx;
static neap_tokenizer *tokenizer;
static np_whisper_tokens tokens;

/* ---- a vocabulary --------------------------------------------------------------------------- */

static const char *const pieces[T0] = {
    "a", "b", "\xC4\xA0you", "\xC4\xA0", "(", "\xC4\xA0(", "c", "d", "e", "f", "<|endoftext|>",
    "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>",
    "<|startoflm|>", "<|startofprev|>", "<|nocaptions|>", "<|notimestamps|>"};

/* The first `count` pieces, one of them renamed. */
static neap_status make_tokenizer(int count, int renamed, const char *as, neap_tokenizer **out)
{
    static char block[1024];
    static np_bytes piece[T0], merge;
    static int32_t types[T0];
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        const char *text = i == renamed ? as : pieces[i];
        piece[i] = (np_bytes){(const uint8_t *)block + at, strlen(text)};
        memcpy(block + at, text, strlen(text));
        at += strlen(text);
        types[i] = i >= END ? NP_TOKEN_CONTROL : NP_TOKEN_NORMAL;
    }
    memcpy(block + at, "\xC4\xA0 (", 4);
    merge = (np_bytes){(const uint8_t *)block + at, 4};
    np_vocab v = NP_VOCAB_INIT;
    v.model = (np_bytes){(const uint8_t *)"gpt2", 4};
    v.pre = (np_bytes){(const uint8_t *)"gpt-2", 5};
    v.n_tokens = v.n_types = (uint64_t)count;
    v.pieces = piece;
    v.types = types;
    v.n_merges = 1;
    v.merges = &merge;
    v.eos = END;
    return np_tokenizer_new(ctx, &v, out);
}

static int open_all(void **state)
{
    (void)state;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    if (neap_context_new(&o, &ctx) != NEAP_OK || make_tokenizer(T0, -1, NULL, &tokenizer) != NEAP_OK)
        return -1;
    return np_whisper_find_tokens(ctx, tokenizer, VOCABULARY, &tokens) != NEAP_OK;
}

static int close_all(void **state)
{
    (void)state;
    neap_tokenizer_free(tokenizer);
    neap_context_free(ctx);
    return 0;
}

static void test_tokens(void **state)
{
    (void)state;
    assert_int_equal(tokens.end, END);
    assert_int_equal(tokens.start, START);
    assert_int_equal(tokens.previous, PREVIOUS);
    assert_int_equal(tokens.translate, TRANSLATE);
    assert_int_equal(tokens.transcribe, TRANSCRIBE);
    assert_int_equal(tokens.no_speech, NO_SPEECH);
    assert_int_equal(tokens.no_timestamps, NO_TIMES);
    assert_int_equal(tokens.timestamp, T0);
    assert_int_equal(tokens.timestamps, 1501);
    assert_int_equal(tokens.language, EN);
    assert_int_equal(tokens.languages, 2);
    assert_int_equal(tokens.blank, 3);
    /* " -" and the notes begin with a space here, the brackets are whole */
    assert_int_equal(tokens.suppressed_count, 3);
    assert_memory_equal(tokens.suppressed, ((int32_t[]){3, 4, 5}), 12);
    assert_int_equal(np_whisper_find_language(&tokens, tokenizer, "de", 2), DE);
    assert_int_equal(np_whisper_find_language(&tokens, tokenizer, "deu", 2), DE);
    assert_int_equal(np_whisper_find_language(&tokens, tokenizer, "xx", 2), -1);
    assert_int_equal(np_whisper_find_language(&tokens, tokenizer, "translate", 9), -1);
    assert_int_equal(np_whisper_find_language(&tokens, tokenizer, "endoftext", 9), -1);
    assert_int_equal(np_whisper_find_language(&tokens, tokenizer, "", 0), -1);
    assert_int_equal(np_whisper_find_language(&tokens, tokenizer, "a language with a long name", 27),
                     -1);
    np_whisper_tokens few;
    assert_int_equal(np_whisper_find_tokens(ctx, tokenizer, T0, &few), NEAP_OK);
    assert_int_equal(few.timestamps, 0);
}

static void test_other_vocabularies(void **state)
{
    (void)state;
    np_whisper_tokens found;
    neap_tokenizer *other;
    static const int needed[] = {END, START, TRANSLATE, TRANSCRIBE, NO_TIMES};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(make_tokenizer(T0, needed[i], "<|other|>", &other), NEAP_OK);
        assert_int_equal(np_whisper_find_tokens(ctx, other, VOCABULARY, &found), NEAP_EUNSUPPORTED);
        assert_non_null(strstr(neap_context_error(ctx), pieces[needed[i]]));
        neap_context_clear_error(ctx);
        neap_tokenizer_free(other);
    }
    assert_int_equal(np_whisper_find_tokens(ctx, tokenizer, NO_TIMES, &found), NEAP_EUNSUPPORTED);
    neap_context_clear_error(ctx);
    assert_int_equal(np_whisper_find_tokens(ctx, tokenizer, 0, &found), NEAP_EUNSUPPORTED);
    neap_context_clear_error(ctx);
    assert_int_equal(make_tokenizer(T0, PREVIOUS, "<|other|>", &other), NEAP_OK);
    assert_int_equal(np_whisper_find_tokens(ctx, other, VOCABULARY, &found), NEAP_OK);
    assert_int_equal(found.previous, -1); /* can do without */
    neap_tokenizer_free(other);
}

/* ---- a decoder ------------------------------------------------------------------------------ */

/* Says `script` (ids, 0-terminated by END), surely or not, whatever it was fed before. */
typedef struct fake {
    const int32_t *script;
    int32_t prompt; /* ids of the prompt: script[i] is what comes at position prompt + i */
    float sure;     /* how far the script's token is above the others */
    float no_speech;
    bool broken;
    int attempts, sure_attempts; /* so far; from here on all tokens are alike (0: never) */
    int fed_count;
    int32_t fed[FED_MAX], at[FED_MAX];
    float scores[VOCABULARY];
} fake;

static neap_status fake_feed(void *model, int32_t id, int32_t position)
{
    fake *f = model;
    assert_true(f->fed_count < FED_MAX && position >= 0 && position < POSITIONS);
    f->fed[f->fed_count] = id;
    f->at[f->fed_count++] = position;
    for (int i = 0; i < VOCABULARY; i++)
        f->scores[i] = 0;
    if (id == START)
        f->scores[NO_SPEECH] = f->no_speech;
    const int32_t next = position + 1 - f->prompt;
    if (next >= 0)
        f->scores[f->script[next]] = f->broken ? NAN : f->sure;
    f->attempts += next == 0;
    if (f->sure_attempts && f->attempts > f->sure_attempts)
        memset(f->scores, 0, sizeof f->scores);
    return NEAP_OK;
}

static fake model;
static neap_text text;
static np_whisper_decoder decoder = {&model, POSITIONS, model.scores, fake_feed};
static np_whisper_window window;

static void prepare(const int32_t *script, int32_t prompt, float sure)
{
    model = (fake){.script = script, .prompt = prompt, .sure = sure};
    window = (np_whisper_window){.ctx = ctx,
                                 .tokenizer = tokenizer,
                                 .tokens = &tokens,
                                 .decoder = &decoder,
                                 .task = {.language = EN, .last_tick = 1500},
                                 .fallback = true,
                                 .text = &text};
}

static void test_greedy(void **state)
{
    (void)state;
    static const int32_t script[] = {0, 1, 2, 6, END};
    prepare(script, 4, 30);
    assert_int_equal(np_whisper_hear(&window), NEAP_OK);
    assert_int_equal(window.made.count, 4);
    assert_memory_equal(window.made.ids, script, 16);
    assert_false(window.silent);
    assert_true(window.made.temperature == 0);
    assert_true(window.made.attempt.logprob > -0.01 && window.made.attempt.logprob <= 0);
    assert_true(fabs(window.made.attempt.no_speech - 1.0 / VOCABULARY) < 1e-9);
    /* fed: the forced ids, then each new one but the end, at rising positions */
    static const int32_t fed[] = {START, EN, TRANSCRIBE, NO_TIMES, 0, 1, 2, 6};
    assert_int_equal(model.fed_count, 8);
    assert_memory_equal(model.fed, fed, sizeof fed);
    for (int i = 0; i < 8; i++)
        assert_int_equal(model.at[i], i);
    assert_int_equal(window.prompt_steps, 4);
    assert_int_equal(window.new_steps, 4);
}

/* A loop of text is tried at every temperature; the prompt is not fed again. */
static void test_repetition(void **state)
{
    (void)state;
    int32_t script[POSITIONS];
    for (int i = 0; i < POSITIONS; i++)
        script[i] = 2; /* " you" */
    prepare(script, 4, 60);
    assert_int_equal(np_whisper_hear(&window), NEAP_OK);
    assert_int_equal(window.made.count, POSITIONS - 4); /* to the decoder's end, and not beyond */
    assert_true(window.made.attempt.compression > 2.4);
    assert_true(window.made.temperature == 0); /* all repeat themselves: it is the sound that does */
    assert_int_equal(window.prompt_steps, 4 + 5);
    assert_int_equal(window.new_steps, 6 * (POSITIONS - 5));
    prepare(script, 4, 60);
    window.fallback = false;
    assert_int_equal(np_whisper_hear(&window), NEAP_OK);
    assert_true(window.made.temperature == 0);
    assert_int_equal(window.new_steps, POSITIONS - 5);
    prepare(script, 4, 60);
    window.temperature = 0.5f; /* then .6, .8, 1 */
    assert_int_equal(np_whisper_hear(&window), NEAP_OK);
    assert_true(window.made.temperature == 0.5f);
    assert_int_equal(window.new_steps, 4 * (POSITIONS - 5));
}

/* What is drawn from 8 tokens that are alike, ln 8 = 2.1 nats each, is 1.1 beyond the threshold;
 * 14 times " you" repeats itself 4 times over (56 bytes, zlib: 14), ln(4 / 2.4) = 0.5 beyond. */
static void test_nonsense_loses(void **state)
{
    (void)state;
    int32_t script[POSITIONS];
    for (int i = 0; i < POSITIONS; i++)
        script[i] = 2;
    decoder.positions = 4 + 14;
    for (uint64_t seed = 0; seed < 20; seed++)
        for (int sure = 1; sure < 7; sure++) { /* the last attempt, the last two, ... all but one */
            prepare(script, 4, 60);
            model.sure_attempts = sure;
            window.seed = seed;
            assert_int_equal(np_whisper_hear(&window), NEAP_OK);
            assert_int_equal(model.attempts, 6);
            assert_int_equal(window.made.count, 14);
            assert_memory_equal(window.made.ids, script, 14 * sizeof *script);
            assert_true(window.made.temperature == 0);
        }
    decoder.positions = POSITIONS;
}

static void test_silence(void **state)
{
    (void)state;
    static const int32_t script[] = {2, END};
    prepare(script, 4, 1); /* unsure: e among 7 others and more */
    model.no_speech = 12;
    assert_int_equal(np_whisper_hear(&window), NEAP_OK);
    assert_true(window.silent);
    assert_int_equal(window.made.count, 0);
    assert_true(window.made.temperature == 0); /* silence is no reason to try again */
    assert_true(window.made.attempt.no_speech > 0.9 && window.made.attempt.no_speech <= 1);
    prepare(script, 4, 30);
    model.no_speech = 12;
    assert_int_equal(np_whisper_hear(&window), NEAP_OK);
    assert_false(window.silent); /* sure of its word */
}

static void test_draws_repeat(void **state)
{
    (void)state;
    static const int32_t script[] = {0, 1, 2, 6, 7, 8, END, END, END, END, END, END, END, END, END};
    int32_t made[NP_WHISPER_NEW_TOKENS];
    int32_t count = -1;
    for (int round = 0; round < 4; round++) {
        prepare(script, 4, 1);
        window.temperature = 1;
        window.fallback = false;
        window.seed = 77;
        window.number = round == 3;
        model.script = script;
        decoder.positions = 12;
        assert_int_equal(np_whisper_hear(&window), NEAP_OK);
        if (round == 0) {
            count = window.made.count;
            memcpy(made, window.made.ids, sizeof made);
        } else if (round < 3) {
            assert_int_equal(window.made.count, count);
            assert_memory_equal(window.made.ids, made, (size_t)count * sizeof *made);
        } else {
            assert_true(window.made.count != count ||
                        memcmp(window.made.ids, made, (size_t)count * sizeof *made) != 0);
        }
    }
    decoder.positions = POSITIONS;
}

static void test_previous_text(void **state)
{
    (void)state;
    static const int32_t script[] = {6, END};
    int32_t before[100];
    for (int i = 0; i < 100; i++)
        before[i] = i % 3;
    prepare(script, 36, 30); /* previous, the last 31 (half of 64 positions), and the four */
    window.previous = before;
    window.previous_count = 100;
    assert_int_equal(np_whisper_hear(&window), NEAP_OK);
    assert_int_equal(window.made.count, 1);
    assert_int_equal(model.fed[0], PREVIOUS);
    assert_int_equal(model.fed[1], before[69]);
    assert_int_equal(model.fed[31], before[99]);
    assert_int_equal(model.fed[32], START);
}

static void test_faults(void **state)
{
    (void)state;
    static const int32_t script[] = {6, 7, END};
    prepare(script, 4, 30);
    model.broken = true;
    assert_int_equal(np_whisper_hear(&window), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "position 3 are no numbers"));
    neap_context_clear_error(ctx);
    prepare(script, 4, 30);
    decoder.positions = 4;
    assert_int_equal(np_whisper_hear(&window), NEAP_ELIMIT);
    neap_context_clear_error(ctx);
    prepare(script, 4, 30);
    decoder.positions = 5;
    assert_int_equal(np_whisper_hear(&window), NEAP_OK);
    assert_int_equal(window.made.count, 1);
    decoder.positions = POSITIONS;
    neap_text_free(ctx, &text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),     cmocka_unit_test(test_other_vocabularies),
        cmocka_unit_test(test_greedy),     cmocka_unit_test(test_repetition),
        cmocka_unit_test(test_nonsense_loses),
        cmocka_unit_test(test_silence),    cmocka_unit_test(test_draws_repeat),
        cmocka_unit_test(test_previous_text), cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
