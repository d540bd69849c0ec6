/* audio_file.h - sound from a file as Neap hears it: mono, f32, 16 kHz, piece by piece.
 *
 * libsndfile reads (WAV with what streams and recorders make of it, FLAC, Ogg, MP3 ...) and
 * libsamplerate resamples. Both take their memory from the C library: it is not on the ledger, so
 * they are the command's and not the library's. It is bounded by chunks, not by the length. */
#ifndef CLI_AUDIO_FILE_H
#define CLI_AUDIO_FILE_H

#include <stdint.h>

#include "cli/cli.h"

typedef struct cli_audio cli_audio;

/* NULL: it has been said what is wrong. `path` "-" reads standard input. */
cli_audio *cli_audio_open(const char *path);
/* Up to `count` samples to `out`; fewer: the end of the file. -1: it has been said what is wrong. */
int64_t cli_audio_read(cli_audio *audio, float *out, int64_t count);
void cli_audio_close(cli_audio *audio);

#endif
