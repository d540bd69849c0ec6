/* json.h - JSON as a stream of events, and small documents as a tree.
 *
 * YAJL reads; this folder puts its memory on the ledger, its text under Unicode's rules and its
 * errors at their place. A file of megabytes is walked by events and never held; what is small, such
 * as settings, may be collected in a tree. Nesting is limited, no recursion. */
#ifndef NP_JSON_H
#define NP_JSON_H

#include "base/context.h"
#include "base/reader.h"

enum { NP_JSON_DEPTH = 64 };

typedef enum np_json_kind {
    NP_JSON_NULL,
    NP_JSON_BOOL,
    NP_JSON_NUMBER,
    NP_JSON_STRING,
    NP_JSON_OBJECT,
    NP_JSON_ARRAY,
    NP_JSON_KEY,
    NP_JSON_END /* of an object or array */
} np_json_kind;

typedef struct np_json_event {
    np_json_kind kind;
    int depth;     /* of the value, 0: the document; a key has its value's, an end its container's */
    bool truth;    /* BOOL */
    bool lasting;  /* `text` lies in the input; otherwise it goes when the visitor returns */
    np_bytes text; /* KEY and STRING: valid UTF-8, NUL may occur; NUMBER: as written */
    uint64_t end;  /* where in the input the event's own bytes end */
} np_json_event;

typedef neap_status (*np_json_visit)(void *user, const np_json_event *event);

/* Walks the one value that starts at byte `from` of `text`. From byte 0 the text must hold nothing
 * else. Of half a surrogate pair, YAJL makes a "?" or this an error. A visitor's status other than NEAP_OK stops the walk and is returned. NEAP_EFORMAT,
 * NEAP_ELIMIT (nesting, 1 GiB); messages of it and of the visitor begin with the place. */
neap_status np_json_read(neap_context *ctx, np_bytes text, uint64_t from, np_json_visit visit,
                         void *user);

/* A NUMBER as an integer; false: it has a fraction or exponent, or is out of range. */
bool np_json_integer(np_bytes number, int64_t *out);

/* ---- trees ---------------------------------------------------------------------------------- */

typedef struct np_json_node {
    np_json_kind kind; /* not KEY, not END */
    bool truth, own_key, own_text;
    uint32_t child, next; /* numbers of nodes; 0: none */
    np_bytes key, text;
} np_json_node;

/* Start zeroed but for ctx. Node 0 is the root. Texts that last are not copied. */
typedef struct np_json_tree {
    neap_context *ctx;
    np_json_node *nodes;
    size_t count, capacity;
    np_json_node named; /* its key: the next value's */
    int depth;
    uint32_t open[NP_JSON_DEPTH + 1], last[NP_JSON_DEPTH + 1];
} np_json_tree;

enum { NP_JSON_TREE_LIMIT = 1 << 16 };

/* NEAP_ENOMEM; NEAP_ELIMIT: more than NP_JSON_TREE_LIMIT nodes. */
neap_status np_json_tree_add(np_json_tree *tree, const np_json_event *event);
void np_json_tree_clear(np_json_tree *tree); /* keeps room for the next document */
void np_json_tree_free(np_json_tree *tree);

/* NULL: none, or `node` is NULL or no container. */
const np_json_node *np_json_child(const np_json_tree *tree, const np_json_node *node);
const np_json_node *np_json_next(const np_json_tree *tree, const np_json_node *node);
/* The member of an object; NULL also if it is there and null. */
const np_json_node *np_json_get(const np_json_tree *tree, const np_json_node *node, const char *key);
/* Is it this string? false for NULL. */
bool np_json_is(const np_json_node *node, const char *text);

#endif
