/* wav_chunks.h - does a WAV file hold something that would change the sound and that is not read? */
#ifndef CLI_WAV_CHUNKS_H
#define CLI_WAV_CHUNKS_H

#include <stddef.h>

/* Looks through the chunks of an open file that can be read at any place; it need not be a WAV file, nor a
 * whole one. Returns why it is refused and the chunk's name in id[5], or NULL. A pipe is not looked at. */
const char *cli_wav_refused(int file, char id[5]);

#endif
