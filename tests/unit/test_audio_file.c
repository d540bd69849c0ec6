/* test_audio_file.c - sound files to 16 kHz mono: WAV as programs, streams and broken recorders
 * write it (cases/programs.md L5), compressed files, other rates, and what is refused.
 *
 * WAVs are put together byte by byte here; the others are written by libsndfile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/audio_file.h"

enum { N = 1001, ROOM = 1 << 20 };

static char folder[] = "/tmp/neap-audio-XXXXXX", path[128], log_path[128];
static float got[ROOM];
static char said[1024];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/sound", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    unlink(log_path);
    return rmdir(folder);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads all of `path` in pieces of `piece`; -1 for an error. `said` is what went to stderr. */
static int64_t read_all(int64_t piece)
{
    int64_t n = -1, total = 0;
    fflush(stderr);
    const int keep = dup(STDERR_FILENO);
    FILE *log = fopen(log_path, "w+");
    assert_non_null(log);
    dup2(fileno(log), STDERR_FILENO);
    cli_audio *a = cli_audio_open(path);
    while (a && (n = cli_audio_read(a, got + total, piece)) > 0)
        total += n;
    cli_audio_close(a);
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(keep);
    rewind(log);
    said[fread(said, 1, sizeof said - 1, log)] = '\0';
    fclose(log);
    return n < 0 ? -1 : total;
}

static void must_fail(const char *word)
{
    assert_int_equal(read_all(777), -1);
    if (!strstr(said, path) || !strstr(said, word))
        fail_msg("expected %s and \"%s\" in: %s", path, word, said);
    assert_true(strchr(said, '\n') == said + strlen(said) - 1); /* one line */
}

/* ---- WAV, byte by byte ------------------------------------------------------------------------ */

typedef struct buffer {
    unsigned char bytes[1 << 16];
    size_t n;
} buffer;

static void put(buffer *b, const void *p, size_t n)
{
    assert_true(b->n + n <= sizeof b->bytes);
    memcpy(b->bytes + b->n, p, n);
    b->n += n;
}

static void put_number(buffer *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)(v >> 8 * i);
        put(b, &c, 1);
    }
}

static void put_chunk(buffer *b, const char *id, uint32_t size)
{
    put(b, id, 4);
    put_number(b, size, 4);
}

static double wave(int i) /* not symmetric, and over nearly all of the range */
{
    return 0.9 * sin(i * 0.05) + 0.05 * sin(i * 0.31);
}

typedef enum kind { U8, S16, S24, S32, F32 } kind;
static const int kind_bits[] = {8, 16, 24, 32, 32};

static void put_sample(buffer *b, kind k, double v)
{
    const float f = (float)v;
    const int bits = kind_bits[k];
    if (k == F32)
        put(b, &f, 4);
    else
        put_number(b, (uint64_t)(llround(v * (double)(1u << (bits - 1))) + (k == U8 ? 128 : 0)),
                   bits / 8);
}

typedef struct wav {
    kind kind;
    int channels, rate;
    bool extensible;
    int junk, list;           /* bytes of such a chunk; -1: none */
    uint32_t data_size;       /* what the header says; 0: the truth */
    int cut;                  /* bytes missing at the end */
} wav;

static void put_format(buffer *b, const wav *w)
{
    static const unsigned char guid[] = {0, 0, 0, 0, 16, 0, 128, 0, 0, 170, 0, 56, 155, 113};
    const int bits = kind_bits[w->kind], frame = w->channels * bits / 8, tag = w->kind == F32 ? 3 : 1;
    put_chunk(b, "fmt ", w->extensible ? 40 : 16);
    put_number(b, w->extensible ? 0xFFFE : (uint64_t)tag, 2);
    put_number(b, (uint64_t)w->channels, 2);
    put_number(b, (uint64_t)w->rate, 4);
    put_number(b, (uint64_t)(w->rate * frame), 4);
    put_number(b, (uint64_t)frame, 2);
    put_number(b, (uint64_t)bits, 2);
    if (!w->extensible)
        return;
    put_number(b, 22, 2);
    put_number(b, (uint64_t)bits, 2);
    put_number(b, (1u << w->channels) - 1, 4);
    put_number(b, (uint64_t)tag, 2);
    put(b, guid, sizeof guid);
}

static void put_filler(buffer *b, const char *id, int bytes)
{
    static const unsigned char zeros[256];
    if (bytes < 0)
        return;
    put_chunk(b, id, (uint32_t)bytes);
    put(b, zeros, (size_t)(bytes + bytes % 2)); /* chunks start at even places */
}

static void write_bytes(const buffer *b, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->bytes, 1, n, f), n);
    fclose(f);
}

/* `frames` of the wave; in the second channel its double negative, so that the mean is its half. */
static void write_wav(const wav *w, int frames)
{
    static buffer b;
    b.n = 0;
    const uint32_t bytes = (uint32_t)(frames * w->channels * kind_bits[w->kind] / 8);
    put_chunk(&b, "RIFF", w->data_size ? w->data_size : bytes + 36);
    put(&b, "WAVE", 4);
    put_filler(&b, "JUNK", w->junk);
    put_format(&b, w);
    put_filler(&b, "LIST", w->list);
    put_chunk(&b, "data", w->data_size ? w->data_size : bytes);
    for (int i = 0; i < frames; i++)
        for (int c = 0; c < w->channels; c++)
            put_sample(&b, w->kind, c == 1 ? -0.5 * wave(i) : wave(i));
    write_bytes(&b, b.n - (size_t)w->cut);
}

static void test_wav(void **state)
{
    (void)state;
    static const wav rows[] = {
        {S16, 1, 16000, false, -1, -1, 0,          0   },
        {S16, 1, 16000, false, 28, -1, 0,          0   }, /* JUNK before fmt */
        {S16, 1, 16000, false, 27, -1, 0,          0   },
        {S16, 1, 16000, false, -1, 26, 0,          0   },
        {S16, 1, 16000, false, -1, 17, 0,          0   }, /* odd LIST and its pad byte */
        {S16, 1, 16000, true,  28, 17, 0,          0   },
        {S16, 1, 16000, false, -1, -1, 0xFFFFFFFF, 0   }, /* a stream: the length was not known */
        {S16, 1, 16000, false, 28, 17, 0xFFFFFFFF, 0   },
        {S16, 1, 16000, false, -1, -1, 0x7FFFF000, 0   },
        {S16, 1, 16000, false, -1, -1, 0x80000000, 0   },
        {S16, 1, 16000, false, -1, -1, 0,          502 }, /* cut */
        {S16, 1, 16000, false, -1, -1, 0,          501 },
        {S16, 2, 16000, false, -1, -1, 0xFFFFFFFF, 1000},
        {U8,  1, 16000, false, -1, -1, 0,          0   },
        {S24, 1, 16000, false, -1, -1, 0,          0   },
        {S32, 1, 16000, false, -1, -1, 0,          0   },
        {F32, 1, 16000, false, -1, -1, 0,          0   },
        {F32, 1, 16000, true,  -1, -1, 0,          0   },
        {S24, 1, 16000, true,  -1, 17, 0,          0   },
        {S32, 1, 16000, true,  -1, -1, 0,          0   },
        {S16, 2, 16000, false, -1, -1, 0,          0   },
        {F32, 2, 16000, true,  28, 17, 0,          0   },
        {S24, 2, 16000, true,  -1, -1, 0xFFFFFFFF, 0   },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const wav *w = &rows[r];
        const int frame = w->channels * kind_bits[w->kind] / 8;
        const int want = N - (w->cut + frame - 1) / frame;
        const double lsb = w->kind == F32 ? 1e-7 : ldexp(1, 1 - kind_bits[w->kind]) + 1e-7;
        write_wav(w, N);
        for (int64_t piece = 1; piece <= 5000; piece = piece * 7 + 1) {
            const int64_t n = read_all(piece);
            if (n != want)
                fail_msg("row %zu: %d samples, expected %d: %s", r, (int)n, want, said);
            for (int i = 0; i < want; i++)
                if (fabs((double)got[i] - wave(i) * (w->channels == 2 ? 0.25 : 1)) > lsb)
                    fail_msg("row %zu, sample %d: %g, expected %g", r, i, (double)got[i], wave(i));
        }
    }
}

/* ---- other rates and formats ------------------------------------------------------------------ */

/* A tone of `hertz`, half as loud in the second channel; returns false if libsndfile cannot. */
static bool write_tone(int format, int channels, int rate, int frames, double hertz)
{
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    SNDFILE *f = sf_open(path, SFM_WRITE, &info);
    if (!f)
        return false;
    float *x = malloc(sizeof *x * (size_t)(frames * channels));
    assert_non_null(x);
    for (int i = 0; i < frames; i++)
        for (int c = 0; c < channels; c++)
            x[i * channels + c] = (float)(0.5 / (1 + c) * sin(2 * M_PI * hertz * i / rate));
    assert_int_equal(sf_writef_float(f, x, frames), frames);
    free(x);
    sf_close(f);
    return true;
}

/* How far the samples are from the tone, its ends apart (the filter has nothing to look at there). */
static double distance(int64_t n, double level, double hertz)
{
    double worst = 0;
    for (int64_t i = 400; i < n - 400; i++)
        worst = fmax(worst, fabs((double)got[i] - level * sin(2 * M_PI * hertz * (double)i / 16000)));
    return worst;
}

static void test_rates(void **state)
{
    (void)state;
    static const int rates[] = {8000, 11025, 22050, 24000, 32000, 44100, 48000, 96000, 192000};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
        for (int channels = 1; channels <= 2; channels++) {
            const int frames = rates[r] * 2 + 123;
            assert_true(write_tone(SF_FORMAT_WAV | SF_FORMAT_FLOAT, channels, rates[r], frames, 440));
            const int64_t n = read_all(1000), want = (int64_t)frames * 16000 / rates[r];
            assert_true(n >= want - 1 && n <= want + 1);
            /* medium sinc: 121 dB below the signal */
            assert_true(distance(n, channels == 2 ? 0.375 : 0.5, 440) < 2e-5);
            const float last = got[n / 2];
            assert_int_equal(read_all(37), n); /* pieces change nothing */
            assert_true(got[n / 2] == last);
        }
    /* What 16 kHz cannot carry is gone, not folded back: 10 kHz would be heard at 6 kHz. */
    assert_true(write_tone(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 1, 44100, 44100, 10000));
    assert_true(distance(read_all(1000), 0, 1) < 1e-4);
}

static void test_compressed(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int format, rate;
        double within; /* lossy ones: of a tone of 0.375 */
        int delay;     /* samples that a decoder may keep from coder and decoder */
    } rows[] = {
        {"FLAC 16", SF_FORMAT_FLAC | SF_FORMAT_PCM_16,        16000, 4e-5,  0},
        {"FLAC 24", SF_FORMAT_FLAC | SF_FORMAT_PCM_24,        44100, 2e-5,  0},
        {"Vorbis",  SF_FORMAT_OGG | SF_FORMAT_VORBIS,         44100, 0.05,  0},
        {"Opus",    SF_FORMAT_OGG | SF_FORMAT_OPUS,           48000, 0.05,  0},
        {"AIFF",    SF_FORMAT_AIFF | SF_FORMAT_PCM_16,        16000, 4e-5,  0},
        {"W64",     SF_FORMAT_W64 | SF_FORMAT_PCM_16,         16000, 4e-5,  0},
        {"RF64",    SF_FORMAT_RF64 | SF_FORMAT_PCM_16,        16000, 4e-5,  0},
        {"CAF",     SF_FORMAT_CAF | SF_FORMAT_PCM_16,         16000, 4e-5,  0},
        {"MP3",     SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 44100, 0.05, 1152},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const int frames = rows[r].rate * 2;
        assert_true(write_tone(rows[r].format, 2, rows[r].rate, frames, 440));
        const int64_t n = read_all(1000);
        const double off = distance(n < 32000 ? n : 32000, 0.375, 440);
        print_message("%s: %d samples, %g off\n", rows[r].name, (int)n, off);
        assert_true(n >= 32000 - 1 && n <= 32000 + 1 + rows[r].delay);
        assert_true(off <= rows[r].within);
    }
}

/* ---- what is refused --------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    (void)state;
    static buffer b;
    unlink(path);
    must_fail("No such file");
    write_bytes(&b, 0);
    must_fail("cannot be read as sound");
    srand(7);
    for (size_t i = 0; i < sizeof b.bytes; i++)
        b.bytes[i] = (unsigned char)(rand() >> 7);
    write_bytes(&b, sizeof b.bytes);
    must_fail("cannot be read as sound");
    wav w = {S16, 1, 16000, false, -1, -1, 0, 0};
    write_wav(&w, 0);
    must_fail("no sound in it");
    w.rate = 1;
    write_wav(&w, N);
    must_fail("a sample rate of 1 Hz");
    w.rate = 0x7FFFFFF;
    write_wav(&w, N);
    must_fail("a sample rate of 134217727 Hz");
    w.rate = 16000;
    w.channels = 65;
    write_wav(&w, 8);
    must_fail("65 channels");
    w.channels = 0;
    write_wav(&w, 8);
    must_fail("cannot be read as sound");
    w = (wav){S16, 1, 16000, false, -1, -1, 0, 0};
    write_wav(&w, N);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, 20, SEEK_SET);
    fputs("\x61\x01", f); /* a codec that is not known */
    fclose(f);
    must_fail("cannot be read as sound");
    memcpy(path + strlen(path) - 6, "/", 2);
    must_fail("a folder");
    snprintf(path, sizeof path, "%s/sound", folder);
}

/* ---- chunks ---------------------------------------------------------------------------------------- */

/* fmt, one chunk before data, 100 samples, one chunk behind them; `id` NULL: none. */
static void write_chunks(const char *before, const char *behind, uint32_t data_size)
{
    static buffer b;
    const wav w = {S16, 1, 16000, false, -1, -1, 0, 0};
    const char *ids[2] = {before, behind};
    b.n = 0;
    put_chunk(&b, "RIFF", 1000);
    put(&b, "WAVE", 4);
    put_format(&b, &w);
    for (int i = 0; i < 2; i++) {
        if (ids[i]) { /* of odd size: a byte of padding follows */
            put_chunk(&b, ids[i], 3);
            put(&b, "\x01\x02\x03", 4);
        }
        if (i == 0) {
            put_chunk(&b, "data", data_size);
            for (int k = 0; k < 100; k++)
                put_number(&b, (uint16_t)(100 * k), 2);
        }
    }
    write_bytes(&b, b.n);
}

static void test_chunks(void **state)
{
    (void)state;
    static const char *const harmless[] = {"JUNK", "PAD ", "axml", "id3 ", "LGWV"};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        write_chunks(harmless[i], NULL, 200);
        assert_int_equal(read_all(777), 100);
        write_chunks(NULL, harmless[i], 200);
        assert_int_equal(read_all(777), 100);
    }
    static const char *const refused[][2] = {
        {"plst", "a chunk 'plst', which is not read: its parts would be played in another order"},
        {"wavl", "a chunk 'wavl'"},
        {"slnt", "a chunk 'slnt'"},
        {"data", "a chunk 'data', which is not read: only the first of several would be heard"}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        write_chunks(refused[i][0], NULL, 200);
        must_fail(refused[i][1]);
        write_chunks(NULL, refused[i][0], 200);
        must_fail(refused[i][1]);
    }
    write_chunks(NULL, NULL, 0xFFFFFFFF); /* a stream left its length open */
    assert_int_equal(read_all(777), 100);
}

/* libsndfile 1.2.0 keeps Vorbis's state when an Ogg file ends inside its headers. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:vorbis_info_init\n";
}

/* A header cut anywhere, and compressed files cut anywhere: an error or the part that is there. */
static void test_cut(void **state)
{
    (void)state;
    static const int formats[] = {
        SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
        SF_FORMAT_OGG | SF_FORMAT_VORBIS, SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III};
    static buffer b;
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        assert_true(write_tone(formats[k], 1, 16000, 8000, 440));
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        b.n = fread(b.bytes, 1, sizeof b.bytes, f);
        fclose(f);
        int refused = 0, shorter = 0;
        for (size_t n = 0; n < b.n; n += n < 64 ? 1 : b.n / 97 + 1) {
            write_bytes(&b, n);
            const int64_t samples = read_all(4096);
            assert_true(samples <= 8000 + 2304);
            assert_true(samples >= 0 || said[0]);
            refused += samples < 0;
            shorter += samples >= 0;
        }
        print_message("format %#x: %d refused, %d taken as far as they go\n", (unsigned)formats[k],
                      refused, shorter);
        assert_true(refused > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wav),        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_compressed), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cut),        cmocka_unit_test(test_chunks),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
