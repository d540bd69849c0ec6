/* loop.h - ScanNode: the bodies that a walk is inside of.
 *
 * A body is walked once. What it reads from outside becomes an input of the scan (or is used as it
 * is, if it has bytes already); what it reads from outside and writes itself is carried from step to
 * step. Bodies whose course depends on data run step by step instead. */
#ifndef NP_LOOP_H
#define NP_LOOP_H

#include "eval/scan.h"
#include "program/uses.h"
#include "program/walk.h"

typedef struct np_capture {
    int32_t tid; /* -1: an array that is sliced */
    bool carried;
    neap_array *outer, *leaf;
} np_capture;

typedef struct np_scan_frame {
    struct np_scan_frame *outer;
    int32_t depth; /* from 1 */
    np_bits tids, vids; /* that the body writes */
    np_capture *captures;
    size_t n_captures, capacity;
} np_scan_frame;

static inline int32_t np_frame_depth(const np_walk *w)
{
    return w->frame ? w->frame->depth : 0;
}
/* An outer slot's array as the body sees it. */
neap_array *np_scan_capture(np_walk *w, int32_t tid);
/* Is the number set outside a body that sets it itself? */
bool np_scan_varies(const np_walk *w, uint32_t vid);

#endif
