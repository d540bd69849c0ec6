/* flatbuffer.h - read-only access to an untrusted flatbuffer: nothing outside the buffer is read.
 *
 * Faults stick: the first one is kept with its place, everything read after it is absent, empty or
 * the default, so a reader checks once per object. What is visited is counted: an object may be
 * referred to again, but all visits together are bounded by a small multiple of the buffer, so
 * neither time nor memory grows beyond the file. Loads go by memcpy: no alignment is needed.
 *
 * Positions are byte offsets from the buffer's start; 0 stands for an absent object. */
#ifndef NP_FLATBUFFER_H
#define NP_FLATBUFFER_H

#include "base/reader.h"

typedef struct np_fb {
    const uint8_t *p;
    uint64_t n;
    uint64_t visits;   /* bytes that may still be visited */
    const char *fault; /* the first; NULL: none */
    uint64_t at;       /* of the fault */
    int field;         /* of the table at fault, or -1 */
} np_fb;

typedef struct np_fb_table {
    uint64_t at; /* 0: absent */
    uint64_t vtable;
    uint32_t fields; /* entries of the vtable */
    uint32_t bytes;  /* of the table itself */
} np_fb_table;

typedef struct np_fb_vector {
    uint64_t at; /* of the first element; 0: absent */
    uint32_t n;
} np_fb_vector;

enum { NP_FB_VISITS = 2, NP_FB_FREE_VISITS = 64 << 10 };

static inline np_fb np_fb_over(np_bytes b)
{
    return (np_fb){
        .p = b.p, .n = b.n, .visits = b.n * NP_FB_VISITS + NP_FB_FREE_VISITS, .field = -1};
}

static inline void np_fb_fail(np_fb *b, const char *fault, uint64_t at, int field)
{
    if (!b->fault) {
        b->fault = fault;
        b->at = at;
        b->field = field;
    }
}

/* Is [at, at + bytes) inside, and may it be visited? */
static inline bool np_fb_visit(np_fb *b, uint64_t at, uint64_t bytes, int field)
{
    if (b->fault)
        return false;
    if (at > b->n || bytes > b->n - at)
        np_fb_fail(b, "leads out of the buffer", at, field);
    else if (bytes > b->visits)
        np_fb_fail(b, "is one reference too many for a buffer of this size", at, field);
    else
        b->visits -= bytes;
    return !b->fault;
}

/* A scalar at a place that was checked. */
#define NP_FB_LOAD(name, type)                                        \
    static inline type np_fb_load_##name(const np_fb *b, uint64_t at) \
    {                                                                 \
        type v;                                                       \
        memcpy(&v, b->p + at, sizeof v);                              \
        return v;                                                     \
    }
NP_FB_LOAD(u8, uint8_t)
NP_FB_LOAD(i8, int8_t)
NP_FB_LOAD(u16, uint16_t)
NP_FB_LOAD(u32, uint32_t)
NP_FB_LOAD(i32, int32_t)
NP_FB_LOAD(u64, uint64_t)
NP_FB_LOAD(i64, int64_t)
NP_FB_LOAD(f32, float)
NP_FB_LOAD(f64, double)
#undef NP_FB_LOAD

/* ---- tables --------------------------------------------------------------------------------- */

static inline np_fb_table np_fb_table_at(np_fb *b, uint64_t at, int field)
{
    const np_fb_table none = {0};
    if (!np_fb_visit(b, at, 4, field))
        return none;
    const int64_t vtable = (int64_t)at - np_fb_load_i32(b, at);
    if (vtable < 0 || (uint64_t)vtable > b->n || b->n - (uint64_t)vtable < 4) {
        np_fb_fail(b, "is a table whose vtable lies outside the buffer", at, field);
        return none;
    }
    const uint32_t size = np_fb_load_u16(b, (uint64_t)vtable);
    const uint32_t bytes = np_fb_load_u16(b, (uint64_t)vtable + 2);
    if (size < 4 || size % 2 || b->n - (uint64_t)vtable < size) {
        np_fb_fail(b, "is a table with a vtable of a wrong size", at, field);
        return none;
    }
    if (bytes < 4 || !np_fb_visit(b, at, bytes, field)) {
        np_fb_fail(b, "is a table of a wrong size", at, field);
        return none;
    }
    return (np_fb_table){at, (uint64_t)vtable, (size - 4) / 2, bytes};
}

/* Where a field of `bytes` bytes lies; 0 when it is absent. */
static inline uint64_t np_fb_field(np_fb *b, np_fb_table t, int field, uint32_t bytes)
{
    if (b->fault || !t.at || (uint32_t)field >= t.fields)
        return 0;
    const uint32_t offset = np_fb_load_u16(b, t.vtable + 4 + 2 * (uint64_t)field);
    if (offset == 0)
        return 0;
    if (offset < 4 || offset > t.bytes || bytes > t.bytes - offset) {
        np_fb_fail(b, "has a field outside its table", t.at, field);
        return 0;
    }
    return t.at + offset;
}

#define NP_FB_SCALAR(name, type)                                                        \
    static inline type np_fb_##name(np_fb *b, np_fb_table t, int field, type otherwise) \
    {                                                                                   \
        const uint64_t at = np_fb_field(b, t, field, sizeof(type));                     \
        return at ? np_fb_load_##name(b, at) : otherwise;                               \
    }
NP_FB_SCALAR(u8, uint8_t)
NP_FB_SCALAR(i8, int8_t)
NP_FB_SCALAR(u32, uint32_t)
NP_FB_SCALAR(i32, int32_t)
NP_FB_SCALAR(u64, uint64_t)
NP_FB_SCALAR(i64, int64_t)
NP_FB_SCALAR(f32, float)
NP_FB_SCALAR(f64, double)
#undef NP_FB_SCALAR

/* Follows the 32-bit offset at `at`, which was checked. */
static inline uint64_t np_fb_follow(np_fb *b, uint64_t at, int field)
{
    const uint32_t offset = np_fb_load_u32(b, at);
    if (offset == 0 || offset > b->n - at) {
        np_fb_fail(b, "is an offset that leads out of the buffer", at, field);
        return 0;
    }
    return at + offset;
}

static inline np_fb_table np_fb_root(np_fb *b)
{
    if (!np_fb_visit(b, 0, 4, -1))
        return (np_fb_table){0};
    const uint64_t at = np_fb_follow(b, 0, -1);
    return at ? np_fb_table_at(b, at, -1) : (np_fb_table){0};
}

static inline np_fb_table np_fb_table_of(np_fb *b, np_fb_table t, int field)
{
    const uint64_t place = np_fb_field(b, t, field, 4);
    const uint64_t at = place ? np_fb_follow(b, place, field) : 0;
    return at ? np_fb_table_at(b, at, field) : (np_fb_table){0};
}

/* ---- vectors and strings ----------------------------------------------------------------------
 */

static inline np_fb_vector np_fb_vector_at(np_fb *b, uint64_t at, uint32_t element, int field)
{
    if (!np_fb_visit(b, at, 4, field))
        return (np_fb_vector){0};
    const uint32_t n = np_fb_load_u32(b, at);
    if (!np_fb_visit(b, at + 4, (uint64_t)n * element, field))
        return (np_fb_vector){0};
    return (np_fb_vector){at + 4, n};
}

/* Of scalars or structs of `element` bytes; of 4-byte offsets for tables and strings. */
static inline np_fb_vector np_fb_vector_of(np_fb *b, np_fb_table t, int field, uint32_t element)
{
    const uint64_t place = np_fb_field(b, t, field, 4);
    const uint64_t at = place ? np_fb_follow(b, place, field) : 0;
    return at ? np_fb_vector_at(b, at, element, field) : (np_fb_vector){0};
}

static inline np_fb_table np_fb_element_table(np_fb *b, np_fb_vector v, uint32_t i)
{
    const uint64_t at = b->fault ? 0 : np_fb_follow(b, v.at + 4 * (uint64_t)i, -1);
    return at ? np_fb_table_at(b, at, -1) : (np_fb_table){0};
}

static inline np_bytes np_fb_bytes(const np_fb *b, np_fb_vector v)
{
    return v.at ? (np_bytes){b->p + v.at, v.n} : (np_bytes){NULL, 0};
}

/* A vector of bytes that is passed on, not read: its length is checked, its contents not counted.
 */
static inline np_bytes np_fb_blob(np_fb *b, np_fb_table t, int field)
{
    const np_fb_vector v = np_fb_vector_of(b, t, field, 0);
    if (v.at && v.n > b->n - v.at) {
        np_fb_fail(b, "leads out of the buffer", v.at, field);
        return (np_bytes){NULL, 0};
    }
    return np_fb_bytes(b, v);
}

/* A string holds no zero byte here, so that a terminated copy says all of it. */
static inline np_bytes np_fb_text(np_fb *b, np_fb_vector v, int field)
{
    const np_bytes s = np_fb_bytes(b, v);
    if (s.n && memchr(s.p, 0, (size_t)s.n))
        np_fb_fail(b, "is a string with a zero byte in it", v.at, field);
    return s;
}

/* p is NULL when it is absent. */
static inline np_bytes np_fb_string(np_fb *b, np_fb_table t, int field)
{
    return np_fb_text(b, np_fb_vector_of(b, t, field, 1), field);
}

static inline np_bytes np_fb_element_string(np_fb *b, np_fb_vector v, uint32_t i)
{
    const uint64_t at = b->fault ? 0 : np_fb_follow(b, v.at + 4 * (uint64_t)i, -1);
    return at ? np_fb_text(b, np_fb_vector_at(b, at, 1, -1), -1) : (np_bytes){NULL, 0};
}

#endif
