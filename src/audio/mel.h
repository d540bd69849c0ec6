/* mel.h - the inside of neap_mel: a window frame by frame, for who wants another dtype or order.
 *
 * The clamp needs the largest value of the whole window before the first frame is final. Frames are
 * cheap (an FFT of 400), so they are computed twice instead of kept. */
#ifndef NP_MEL_H
#define NP_MEL_H

#include "neap/audio.h"

enum { NP_MEL_BINS_MAX = 128 };

/* Looks at the window's samples, which must stay until its last frame. Errors: neap_mel_window. */
neap_status np_mel_begin(neap_mel *mel, const float *samples, int64_t count);
/* Frame `t`, 0 to 2999, in any order: out[bins]. */
void np_mel_frame(neap_mel *mel, int64_t t, float *out);
int np_mel_bins(const neap_mel *mel);

#endif
