/* whisper_decode.c - what may come next, what comes next, and what became of it; see the header. */
#include "run/whisper_decode.h"

#include <math.h>
#include <string.h>

#include "base/random.h"

const float np_whisper_temperatures[NP_WHISPER_TEMPERATURES] = {0, 0.2f, 0.4f, 0.6f, 0.8f, 1};

/* ---- prompt ------------------------------------------------------------------------------- */

int32_t np_whisper_prompt(const np_whisper_tokens *k, const np_whisper_task *task,
                          const int32_t *previous, int32_t count, int32_t room, int32_t *out,
                          int32_t *start_at)
{
    int32_t n = 0;
    if (room > NP_WHISPER_PREVIOUS_TOKENS)
        room = NP_WHISPER_PREVIOUS_TOKENS;
    if (count > 0 && room > 0 && k->previous >= 0) {
        const int32_t kept = count < room ? count : room;
        out[n++] = k->previous;
        memcpy(out + n, previous + (count - kept), (size_t)kept * sizeof *out);
        n += kept;
    }
    *start_at = n;
    out[n++] = k->start;
    if (k->languages > 0) {
        out[n++] = task->language;
        out[n++] = task->translate ? k->translate : k->transcribe;
    }
    if (!task->timestamps)
        out[n++] = k->no_timestamps;
    return n;
}

/* ---- filters ------------------------------------------------------------------------------ */

static void forbid(float *scores, int32_t from, int32_t to)
{
    for (int32_t i = from < 0 ? 0 : from; i < to; i++)
        scores[i] = -INFINITY;
}

static bool is_timestamp(const np_whisper_tokens *k, int32_t id)
{
    return id >= k->timestamp && id < k->timestamp + k->timestamps;
}

/* Specials steer the decoder and are never its answer; symbols are not spoken. */
static void forbid_fixed(const np_whisper_tokens *k, const np_whisper_task *task, float *scores)
{
    forbid(scores, k->start, k->timestamp < k->vocabulary ? k->timestamp : k->vocabulary);
    forbid(scores, k->timestamp + k->timestamps, k->vocabulary);
    for (int32_t i = 0; i < k->suppressed_count; i++)
        scores[k->suppressed[i]] = -INFINITY;
    if (!task->timestamps)
        forbid(scores, k->timestamp, k->timestamp + k->timestamps);
    else
        forbid(scores, k->timestamp + task->last_tick + 1, k->timestamp + k->timestamps);
}

/* Timestamps come in pairs, but one alone may stand at the start and before the end; they never go
 * back, and a segment is not empty. */
static void forbid_by_order(const np_whisper_tokens *k, const int32_t *made, int32_t n,
                            float *scores)
{
    const int32_t stop = k->timestamp + k->timestamps;
    const bool last = n >= 1 && is_timestamp(k, made[n - 1]);
    const bool pair = last && (n < 2 || is_timestamp(k, made[n - 2]));
    if (pair)
        forbid(scores, k->timestamp, stop);
    else if (last)
        forbid(scores, 0, k->end);
    int32_t latest = -1;
    for (int32_t i = 0; i < n; i++)
        if (is_timestamp(k, made[i]))
            latest = made[i];
    if (latest >= 0)
        forbid(scores, k->timestamp, last && !pair ? latest : latest + 1);
    if (n == 0) {
        forbid(scores, 0, k->timestamp);
        forbid(scores, k->timestamp + NP_WHISPER_FIRST_TICKS + 1, stop);
    }
}

/* The largest of a range; -inf if it is empty. NaN is passed over. */
static float largest(const float *scores, int32_t from, int32_t to)
{
    float best = -INFINITY;
    for (int32_t i = from; i < to; i++)
        best = scores[i] > best ? scores[i] : best;
    return best;
}

static double sum_of_exp(const float *scores, int32_t from, int32_t to, float top, double scale)
{
    double sum = 0;
    for (int32_t i = from; i < to; i++)
        if (scores[i] > -INFINITY)
            sum += exp((double)(scores[i] - top) * scale);
    return sum;
}

/* If all timestamps together are likelier than the likeliest other token, one has to come. */
static void force_timestamp(const np_whisper_tokens *k, float *scores)
{
    const int32_t stop = k->timestamp + k->timestamps;
    const float top = largest(scores, k->timestamp, stop);
    const float text = largest(scores, 0, k->timestamp);
    if (top > -INFINITY &&
        (double)top + log(sum_of_exp(scores, k->timestamp, stop, top, 1)) > (double)text)
        forbid(scores, 0, k->timestamp);
}

void np_whisper_filter(const np_whisper_tokens *k, const np_whisper_task *task, const int32_t *made,
                       int32_t count, float *scores)
{
    forbid_fixed(k, task, scores);
    if (count == 0) { /* something has to be said: the other way to say nothing is no_speech */
        scores[k->end] = -INFINITY;
        if (k->blank >= 0 && k->blank < k->vocabulary)
            scores[k->blank] = -INFINITY;
    }
    if (!task->timestamps || k->timestamps == 0)
        return;
    forbid_by_order(k, made, count, scores);
    force_timestamp(k, scores);
}

/* ---- choice ------------------------------------------------------------------------------- */

static bool are_numbers(const float *scores, int32_t n)
{
    bool some = false;
    for (int32_t i = 0; i < n; i++) {
        if (!(scores[i] < INFINITY))
            return false;
        some |= scores[i] > -INFINITY;
    }
    return some;
}

static int32_t first_largest(const float *scores, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (scores[i] > scores[best])
            best = i;
    return best;
}

static int32_t draw(const float *scores, int32_t n, float top, double scale, double uniform)
{
    double left = uniform * sum_of_exp(scores, 0, n, top, scale);
    int32_t last = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!(scores[i] > -INFINITY))
            continue;
        last = i; /* rounding may leave a little over: the last possible token takes it */
        left -= exp((double)(scores[i] - top) * scale);
        if (left < 0)
            break;
    }
    return last;
}

np_whisper_choice np_whisper_next(const np_whisper_tokens *k, const float *scores,
                                  float temperature, uint64_t seed, uint64_t step)
{
    const int32_t n = k->vocabulary;
    if (!are_numbers(scores, n))
        return (np_whisper_choice){.id = -1};
    int32_t id = first_largest(scores, n);
    const float top = scores[id];
    if (temperature > 0) {
        uint32_t word[2];
        np_threefry(np_random_seed(seed), (uint32_t)(step >> 32), (uint32_t)step, word);
        id = draw(scores, n, top, 1 / (double)temperature, (double)np_random_uniform(word[0]));
    }
    return (np_whisper_choice){id,
                               (double)(scores[id] - top) - log(sum_of_exp(scores, 0, n, top, 1))};
}

double np_whisper_probability(const np_whisper_tokens *k, const float *scores, int32_t id)
{
    const int32_t n = k->vocabulary;
    if (id < 0 || id >= n || !are_numbers(scores, n))
        return 0;
    const float top = largest(scores, 0, n);
    return exp((double)(scores[id] - top)) / sum_of_exp(scores, 0, n, top, 1);
}

/* ---- attempts ----------------------------------------------------------------------------- */

static const double REPEATS_FROM = 2.4;

bool np_whisper_is_silent(const np_whisper_attempt *a)
{
    return a->no_speech > 0.6 && !(a->logprob > -1);
}

static bool repeats(const np_whisper_attempt *a)
{
    return a->compression > REPEATS_FROM;
}

bool np_whisper_is_poor(const np_whisper_attempt *a)
{
    return !np_whisper_is_silent(a) && (repeats(a) || !(a->logprob >= -1));
}

/* How far it is beyond what is good, in nats: below the mean log-probability, above the repetition.
 * No number is as far as can be. */
static double excess(const np_whisper_attempt *a)
{
    const double unlikely = a->logprob >= -1 ? 0 : isnan(a->logprob) ? INFINITY : -1 - a->logprob;
    return unlikely + (repeats(a) ? log(a->compression / REPEATS_FROM) : 0);
}

bool np_whisper_is_better(const np_whisper_attempt *a, const np_whisper_attempt *b)
{
    const double x = excess(a), y = excess(b);
    return x != y ? x < y : a->logprob > b->logprob;
}

enum { MATCH_LEAST = 3, MATCH_MOST = 258, TEXT_MOST = 8192, LENGTHS = 256, CODES = LENGTHS + 32 };

/* What a deflate block would hold. */
typedef struct deflated {
    int64_t fixed_bits, extra_bits;
    int32_t code[CODES], distance[32]; /* how often; a class of lengths or distances each */
} deflated;

/* RFC 1951, 3.2.5 and 3.2.6: classes grow by powers of two, `extra` bits tell one of a class. */
static void count_match(deflated *d, int length, int distance)
{
    int extra = 0, away = 0;
    for (int v = (length - MATCH_LEAST) >> 3; v > 0 && length < MATCH_MOST; v >>= 1)
        extra++;
    for (int v = (distance - 1) >> 2; v > 0; v >>= 1)
        away++;
    d->fixed_bits += (length >= 115 ? 8 : 7) + extra + 5 + away;
    d->extra_bits += extra + away;
    d->code[LENGTHS + (length == MATCH_MOST ? 28 : 4 * extra + (((length - 3) >> extra) & 3))]++;
    d->distance[2 * away + (((distance - 1) >> away) & 1)]++;
}

static void count_literal(deflated *d, unsigned char byte)
{
    d->fixed_bits += byte < 144 ? 8 : 9;
    d->code[byte]++;
}

/* The bits of a best code for these frequencies, and roughly those that tell the code itself. */
static double best_code(const int32_t *count, int n)
{
    double total = 0, bits = 0;
    for (int i = 0; i < n; i++)
        total += count[i];
    for (int i = 0; i < n; i++)
        if (count[i])
            bits += count[i] * log2(total / count[i]) + 6;
    return bits;
}

/* The longest earlier text that stands at `at` again, the nearest of equals. */
static int longest_match(const unsigned char *text, int at, int n, int *distance)
{
    int best = 0;
    const int most = n - at < MATCH_MOST ? n - at : MATCH_MOST;
    for (int from = at - 1; from >= 0 && best < most; from--) {
        int length = 0;
        while (length < most && text[from + length] == text[at + length])
            length++;
        if (length > best) {
            best = length;
            *distance = at - from;
        }
    }
    return best;
}

double np_whisper_compression(const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    const int n = (int)(length < TEXT_MOST ? length : TEXT_MOST);
    enum { ZLIB = 6 * 8, BLOCK = 3, END_CODE = 7, CODE_OF_CODES = 14 + 17 * 3 };
    deflated d = {0};
    if (n == 0)
        return 0;
    for (int at = 0; at < n;) {
        int distance = 0;
        const int match = longest_match(bytes, at, n, &distance);
        if (match >= MATCH_LEAST)
            count_match(&d, match, distance);
        else
            count_literal(&d, bytes[at]);
        at += match >= MATCH_LEAST ? match : 1;
    }
    const double own =
        CODE_OF_CODES + best_code(d.code, CODES) + best_code(d.distance, 32) + (double)d.extra_bits;
    return n / ceil((ZLIB + BLOCK + END_CODE + fmin(own, (double)d.fixed_bits)) / 8);
}

/* ---- segments ----------------------------------------------------------------------------- */

/* Ids [first, end) with the timestamps around them taken off. */
static void add_segment(const np_whisper_tokens *k, const int32_t *made, int32_t first, int32_t end,
                        int32_t start_tick, int32_t end_tick, int32_t last_tick,
                        np_whisper_cut *out)
{
    while (first < end && is_timestamp(k, made[first]))
        first++;
    while (end > first && is_timestamp(k, made[end - 1]))
        end--;
    if (first == end || start_tick >= last_tick || out->count == NP_WHISPER_SEGMENTS)
        return;
    end_tick = end_tick < last_tick ? end_tick : last_tick;
    out->segments[out->count++] = (np_whisper_segment){
        first, end - first, start_tick, end_tick < start_tick ? start_tick : end_tick};
}

static int32_t tick_of(const np_whisper_tokens *k, int32_t id, int32_t otherwise)
{
    return is_timestamp(k, id) ? id - k->timestamp : otherwise;
}

/* No pair: one segment, to the last timestamp if there is one behind its start. */
static void whole_window(const np_whisper_tokens *k, const int32_t *made, int32_t count,
                         int32_t last_tick, np_whisper_cut *out)
{
    int32_t end = last_tick;
    for (int32_t i = 1; i < count; i++)
        end = tick_of(k, made[i], end);
    if (count > 0)
        add_segment(k, made, 0, count, tick_of(k, made[0], 0), end, last_tick, out);
}

void np_whisper_segments(const np_whisper_tokens *k, const int32_t *made, int32_t count,
                         int64_t samples, np_whisper_cut *out)
{
    const int32_t last_tick =
        (int32_t)((samples + NP_WHISPER_TICK_SAMPLES - 1) / NP_WHISPER_TICK_SAMPLES);
    int32_t from = 0;
    *out = (np_whisper_cut){.advance = samples};
    for (int32_t i = 1; i < count; i++) {
        if (!is_timestamp(k, made[i]) || !is_timestamp(k, made[i - 1]))
            continue;
        add_segment(k, made, from, i, tick_of(k, made[from], 0), made[i - 1] - k->timestamp,
                    last_tick, out);
        from = i;
    }
    if (from == 0) {
        whole_window(k, made, count, last_tick, out);
        return;
    }
    const bool ends_alone = is_timestamp(k, made[count - 1]) && !is_timestamp(k, made[count - 2]);
    if (ends_alone) { /* nothing is said behind it */
        add_segment(k, made, from, count, made[from] - k->timestamp, made[count - 1] - k->timestamp,
                    last_tick, out);
        return;
    }
    /* What follows the last pair was cut by the window's end: it is heard again from there on. */
    const int64_t advance = (int64_t)(made[from - 1] - k->timestamp) * NP_WHISPER_TICK_SAMPLES;
    if (advance > 0 && advance < samples)
        out->advance = advance;
}
