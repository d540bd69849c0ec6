/* known.h - what a file says is applied, known to be harmless, or refused by name: the table of an
 * architecture, and the checks against it. Level 7. */
#ifndef NP_KNOWN_H
#define NP_KNOWN_H

#include <stddef.h>

#include "formats/gguf.h"
#include "neap/base.h"

struct neap_model;

typedef enum np_key_rule {
    NP_KEY_APPLIED,
    NP_KEY_HARMLESS,
    NP_KEY_ONLY, /* refused unless it is one of two numbers */
    NP_KEY_REFUSED
} np_key_rule;

typedef struct np_key_row {
    const char *name;
    np_key_rule rule;
    double a, b;
    const char *why;
} np_key_row;

typedef struct np_tensor_row {
    const char *name, *why;
} np_tensor_row;

typedef struct np_known {
    const np_key_row *keys;
    size_t n_keys;
    const np_tensor_row *tensors; /* that are refused; the others, too, without a reason */
    size_t n_tensors;
} np_known;

/* The row of a key, or NULL. */
const np_key_row *np_known_row(const np_key_row *rows, size_t n, np_bytes key);
/* NEAP_EUNSUPPORTED: the row, or that there is none, does not let the key pass. */
neap_status np_known_check_key(const np_gguf *g, const np_key_row *row, const np_gguf_value *v);
/* NEAP_EUNSUPPORTED: a part of a split file, or anything but a model. Before all else is looked at.
 */
neap_status np_model_check_kind(const struct neap_model *m);
/* NEAP_EUNSUPPORTED: a key of the architecture (`m->arch`) that the table does not let pass. */
neap_status np_model_check_keys(const struct neap_model *m);
/* NEAP_EUNSUPPORTED: a tensor that no np_model_expect asked for. After the model was opened. */
neap_status np_model_check_tensors(const struct neap_model *m);

#endif
