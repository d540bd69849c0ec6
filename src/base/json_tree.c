/* json_tree.c - a small document as nodes in one array, see json.h. */
#include "base/json.h"

static bool keep_text(np_json_tree *t, const np_json_event *e, np_bytes *text, bool *own)
{
    *own = !e->lasting && e->text.n > 0;
    *text = e->text;
    if (!*own)
        return true;
    uint8_t *copy = np_alloc(t->ctx, NEAP_MEM_HOST, e->text.n);
    if (!copy)
        return *own = false;
    memcpy(copy, e->text.p, e->text.n);
    text->p = copy;
    return true;
}

static void drop(np_json_tree *t, np_bytes *text, bool *own)
{
    if (*own)
        np_free(t->ctx, NEAP_MEM_HOST, (void *)(uintptr_t)text->p, text->n);
    *own = false;
    *text = (np_bytes){NULL, 0};
}

/* As the last child of the innermost open container. */
static void link_node(np_json_tree *t, uint32_t number)
{
    if (t->depth == 0)
        return;
    uint32_t *last = &t->last[t->depth - 1];
    if (*last)
        t->nodes[*last].next = number;
    else
        t->nodes[t->open[t->depth - 1]].child = number;
    *last = number;
}

neap_status np_json_tree_add(np_json_tree *t, const np_json_event *e)
{
    if (e->kind == NP_JSON_END) {
        t->depth--;
        return NEAP_OK;
    }
    if (e->kind == NP_JSON_KEY) {
        drop(t, &t->named.key, &t->named.own_key);
        return keep_text(t, e, &t->named.key, &t->named.own_key) ? NEAP_OK : NEAP_ENOMEM;
    }
    if (t->count == NP_JSON_TREE_LIMIT)
        return np_fail(t->ctx, NEAP_ELIMIT, "more than %d values", NP_JSON_TREE_LIMIT);
    if (!np_grow(t->ctx, NEAP_MEM_HOST, &t->nodes, &t->capacity, t->count + 1, sizeof *t->nodes))
        return NEAP_ENOMEM;
    uint32_t number = (uint32_t)t->count++;
    np_json_node *n = &t->nodes[number];
    *n = t->named;
    t->named = (np_json_node){0};
    n->kind = e->kind;
    n->truth = e->truth;
    if (!keep_text(t, e, &n->text, &n->own_text))
        return NEAP_ENOMEM;
    link_node(t, number);
    if (e->kind == NP_JSON_OBJECT || e->kind == NP_JSON_ARRAY) {
        t->open[t->depth] = number;
        t->last[t->depth++] = 0;
    }
    return NEAP_OK;
}

void np_json_tree_clear(np_json_tree *t)
{
    for (size_t i = 0; i < t->count; i++) {
        drop(t, &t->nodes[i].key, &t->nodes[i].own_key);
        drop(t, &t->nodes[i].text, &t->nodes[i].own_text);
    }
    drop(t, &t->named.key, &t->named.own_key);
    t->count = 0;
    t->depth = 0;
}

void np_json_tree_free(np_json_tree *t)
{
    np_json_tree_clear(t);
    np_free(t->ctx, NEAP_MEM_HOST, t->nodes, t->capacity * sizeof *t->nodes);
    *t = (np_json_tree){.ctx = t->ctx};
}

const np_json_node *np_json_child(const np_json_tree *t, const np_json_node *node)
{
    return node && node->child ? &t->nodes[node->child] : NULL;
}

const np_json_node *np_json_next(const np_json_tree *t, const np_json_node *node)
{
    return node->next ? &t->nodes[node->next] : NULL;
}

const np_json_node *np_json_get(const np_json_tree *t, const np_json_node *node, const char *key)
{
    if (!node || node->kind != NP_JSON_OBJECT)
        return NULL;
    size_t n = strlen(key);
    for (const np_json_node *m = np_json_child(t, node); m; m = np_json_next(t, m))
        if (m->key.n == n && memcmp(m->key.p, key, n) == 0)
            return m->kind == NP_JSON_NULL ? NULL : m;
    return NULL;
}

bool np_json_is(const np_json_node *node, const char *text)
{
    return node && node->kind == NP_JSON_STRING && node->text.n == strlen(text) &&
           memcmp(node->text.p, text, node->text.n) == 0;
}
