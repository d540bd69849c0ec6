/* dry_run.h - what a dry walk finds: the peak of held bytes, without holding them. */
#ifndef NP_DRY_RUN_H
#define NP_DRY_RUN_H

#include "plan/plan.h"

typedef struct np_dry_alive {
    neap_plan_alive what;
    char name[64];
} np_dry_alive;

typedef struct np_dry_run {
    const neap_context *root; /* whose ledger the peak is of */
    uint64_t arena; /* the largest so far: it stays from plan to plan of a walk */
    uint64_t idle;  /* of it, imagined */
    uint64_t gone;  /* of held bytes, let go in a run */
    uint64_t peak;  /* of held bytes */
    uint64_t by_category[NEAP_MEM_CATEGORIES]; /* then */
    uint64_t outputs; /* results of the plan that holds the peak */
    neap_plan_info info;
    int64_t steps, evaluations;
    double plan_seconds;
    struct np_dry_value *values, *unused; /* evaluated, without bytes */
    struct np_dry_page *pages;            /* where these lie */
    uint64_t own;                         /* bytes that the dry run itself takes */
    np_dry_alive *alive; /* at the peak */
    size_t n_alive, alive_capacity;
    struct np_dry_jumps *jumps; /* of the method: which way they go where only data would tell */
    neap_plan_visit *visit; /* shown each plan; NULL: nobody is */
    void *user;
    bool stopped; /* it has seen enough */
} np_dry_run;

/* What would be held while this plan ran now. */
bool np_dry_note(np_dry_run *r, neap_context *ctx, neap_plan *plan);
/* A value that would have bytes from now on. */
bool np_dry_keep(np_dry_run *r, neap_context *ctx, np_buffer *fake);
/* A value with bytes that would be gone from now on. */
void np_dry_drop(np_dry_run *r, neap_context *ctx, const np_buffer *b);
/* The arena is given back. */
void np_dry_trim(np_dry_run *r, neap_context *ctx);
/* Another way through the method begins: the largest of the ways counts. */
void np_dry_next(np_dry_run *r, neap_context *ctx);
void np_dry_free(np_dry_run *r, neap_context *ctx);

#endif
