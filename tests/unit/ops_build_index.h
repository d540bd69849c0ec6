/* ops_build_index.h - builders of rows of tests/ops_cases.def for the ops that move, index and order
 * elements. Included by test_ops.c behind row_input. */
#ifndef OPS_BUILD_INDEX_H
#define OPS_BUILD_INDEX_H

static int int_list(const row_input *r, const char *key, int *out)
{
    int64_t given[10];
    int n = list(r->params, key, given);
    for (int i = 0; i < n; i++)
        out[i] = (int)given[i];
    return n;
}

static neap_array *build_tile(row_input *r)
{
    int64_t reps[10];
    return neap_tile(r->in[0], list(r->params, "reps", reps), reps);
}

static neap_array *build_repeat(row_input *r)
{
    return neap_repeat(r->in[0], (int64_t)number(r->params, "times", 0), whole(r->params, "axis"));
}

static neap_array *build_roll(row_input *r)
{
    int64_t shifts[10];
    int axes[10];
    list(r->params, "shifts", shifts);
    return neap_roll(r->in[0], int_list(r, "axes", axes), shifts, axes);
}

static neap_array *build_flip(row_input *r)
{
    int axes[10];
    return neap_flip(r->in[0], int_list(r, "axes", axes), axes);
}

static neap_array *build_stack(row_input *r)
{
    return neap_stack(r->n, r->in, whole(r->params, "axis"));
}

static neap_array *build_split_sizes(row_input *r)
{
    neap_array *parts[10];
    int64_t sizes[10];
    int n = list(r->params, "sizes", sizes);
    return neap_split_sizes(r->in[0], n, sizes, whole(r->params, "axis"), parts) == NEAP_OK
               ? parts[whole(r->params, "part")]
               : NULL;
}

static neap_array *build_as_strided(row_input *r)
{
    int64_t shape[10], strides[10];
    int rank = list(r->params, "shape", shape);
    list(r->params, "strides", strides);
    return neap_as_strided(r->in[0], rank, shape, strides, (int64_t)number(r->params, "offset", 0));
}

static neap_array *build_pad_edge(row_input *r)
{
    int64_t before[10], after[10];
    list(r->params, "before", before);
    list(r->params, "after", after);
    return neap_pad_edge(r->in[0], before, after);
}

static neap_array *build_tri(row_input *r)
{
    return neap_tri((int64_t)number(r->params, "n", 0), (int64_t)number(r->params, "m", 0),
                    whole(r->params, "k"), r->dtype);
}

static neap_array *build_tril(row_input *r)
{
    return neap_tril(r->in[0], (int64_t)number(r->params, "k", 0));
}

static neap_array *build_triu(row_input *r)
{
    return neap_triu(r->in[0], (int64_t)number(r->params, "k", 0));
}

static neap_array *build_take_along_axis(row_input *r)
{
    return neap_take_along_axis(r->in[0], r->in[1], whole(r->params, "axis"));
}

static neap_array *build_gather(row_input *r)
{
    int64_t sizes[10];
    int axes[10], n = int_list(r, "axes", axes);
    list(r->params, "sizes", sizes);
    return neap_gather(r->in[0], n, r->in + 1, axes, sizes);
}

static neap_array *build_scatter_add(row_input *r)
{
    return neap_scatter_add(r->in[0], r->in[1], r->in[2], whole(r->params, "axis"));
}

static neap_array *build_index_copy(row_input *r)
{
    return neap_index_copy(r->in[0], r->in[1], r->in[2], whole(r->params, "axis"));
}

#define ALONG(op)                                                                             \
    static neap_array *build_##op(row_input *r)                                               \
    {                                                                                         \
        return neap_##op(r->in[0], whole(r->params, "axis"));                                 \
    }
ALONG(sort)
ALONG(argsort)
#undef ALONG

#define WITH_NUMBER(op, key)                                                                  \
    static neap_array *build_##op(row_input *r)                                               \
    {                                                                                         \
        return neap_##op(r->in[0], (int64_t)number(r->params, key, 0),                        \
                         whole(r->params, "axis"));                                           \
    }
WITH_NUMBER(partition, "kth")
WITH_NUMBER(argpartition, "kth")
WITH_NUMBER(topk, "k")
#undef WITH_NUMBER

static neap_array *build_median(row_input *r)
{
    int axes[10], n = int_list(r, "axes", axes);
    return neap_median(r->in[0], n, axes, (unsigned)whole(r->params, "keep"));
}

#define RUNNING(op)                                                                           \
    static neap_array *build_##op(row_input *r)                                               \
    {                                                                                         \
        return neap_##op(r->in[0], whole(r->params, "axis"), whole(r->params, "reverse"),     \
                         !whole(r->params, "without"));                                       \
    }
RUNNING(cumsum)
RUNNING(cumprod)
RUNNING(cummax)
RUNNING(cummin)
#undef RUNNING

static neap_array *build_random_bits(row_input *r)
{
    int64_t shape[10];
    int rank = list(r->params, "shape", shape);
    return neap_random_bits(key_of(r), rank, shape, whole(r->params, "width"));
}

#define INDEX_ROWS                                                                              \
    ROW(tile), ROW(repeat), ROW(roll), ROW(flip), ROW(stack), ROW(split_sizes), ROW(as_strided), \
        ROW(pad_edge), ROW(tri), ROW(tril), ROW(triu), ROW(take_along_axis), ROW(gather),       \
        ROW(scatter_add), ROW(index_copy), ROW(sort), ROW(argsort), ROW(partition),             \
        ROW(argpartition), ROW(topk), ROW(median), ROW(cumsum), ROW(cumprod), ROW(cummax),      \
        ROW(cummin), ROW(random_bits)

#endif
