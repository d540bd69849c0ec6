/* progress.h - telling the caller's function how far a long call is (neap/base.h). */
#ifndef NP_PROGRESS_H
#define NP_PROGRESS_H

#include "base/context.h"

typedef struct np_progress {
    neap_progress_fn *fn; /* NULL: nobody listens, or an outer one tells */
    void *user;
    neap_progress now;
    double next; /* when something may be told again */
    bool told;
} np_progress;

/* Begins and tells 0, `patient` ones nothing before they have lasted a while. Each is ended. */
void np_progress_begin(np_progress *p, neap_context *ctx, const char *what, uint64_t total, bool patient);
void np_progress_at(np_progress *p, uint64_t done);
/* Tells the end, unless the call failed, of what was told anything of. */
void np_progress_end(np_progress *p, neap_status status);

#endif
