/* jinja_methods.c - the methods of strings, dicts, lists and loops that Python has. */
#include "base/shown.h"
#include "text/jinja/jinja_eval.h"

typedef np_jinja_value value;

static bool given(value v)
{
    return v.kind != NP_JINJA_ABSENT && v.kind != NP_JINJA_NONE;
}

static bool need_string(np_jinja *j, value v)
{
    return np_jinja_is_string(v) || NP_JINJA_RAISE(j, "expected a string, not %s", np_jinja_type(v));
}

/* ---- strings ----------------------------------------------------------------------------------- */

static bool strip(np_jinja *j, value self, const value *at, bool left, bool right, value *out)
{
    if (given(at[0]) && !need_string(j, at[0]))
        return false;
    *out = self;
    return np_jinja_stripped(j, self.text, given(at[0]) ? &at[0].text : NULL, left, right, &out->text);
}

static bool str_strip(np_jinja *j, value self, const value *at, value *out)
{
    return strip(j, self, at, true, true, out);
}
static bool str_lstrip(np_jinja *j, value self, const value *at, value *out)
{
    return strip(j, self, at, true, false, out);
}
static bool str_rstrip(np_jinja *j, value self, const value *at, value *out)
{
    return strip(j, self, at, false, true, out);
}

static bool change_case(np_jinja *j, value self, np_jinja_case how, value *out)
{
    if (!np_jinja_change_case(j, self.text, how, out))
        return false;
    out->form = self.form;
    return true;
}

static bool str_upper(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return change_case(j, self, NP_JINJA_UPPER, out);
}
static bool str_lower(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return change_case(j, self, NP_JINJA_LOWER, out);
}
static bool str_title(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return change_case(j, self, NP_JINJA_TITLE, out);
}
static bool str_capitalize(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return change_case(j, self, NP_JINJA_CAPITALIZE, out);
}

/* A list of parts of `text`, cut at `n` places. */
typedef struct parts {
    np_jinja *j;
    value list;
    size_t n, capacity;
} parts;

static bool add_part(parts *p, np_bytes text)
{
    if (p->n == p->capacity) {
        value wider;
        p->capacity = p->capacity ? p->capacity * 2 : 8;
        if (!np_jinja_new_list(p->j, p->capacity, NP_JINJA_PLAIN, &wider))
            return false;
        if (p->n)
            memcpy(wider.list->at, p->list.list->at, p->n * sizeof *wider.list->at);
        p->list = wider;
    }
    p->list.list->at[p->n++] = np_jinja_text(text);
    p->list.list->n = p->n;
    return np_jinja_step(p->j, 1);
}

static bool split_spaces(parts *p, np_bytes text, int64_t most)
{
    uint32_t code;
    for (text = np_jinja_strip(text, NULL, true, false); text.n; text = np_jinja_strip(text, NULL, true, false)) {
        size_t at = 0, n = 0;
        if (most >= 0 && (int64_t)p->n == most)
            return add_part(p, text); /* with the white space at its end */
        for (; at < text.n; at += n) {
            n = np_jinja_char(text.p + at, text.n - at, &code);
            if (np_jinja_space(code))
                break;
        }
        if (!add_part(p, (np_bytes){text.p, at}))
            return false;
        text = (np_bytes){text.p + at, text.n - at};
    }
    return true;
}

static bool split_at(parts *p, np_bytes text, np_bytes by, int64_t most)
{
    size_t from = 0, at;
    while ((most < 0 || (int64_t)p->n < most) && (at = np_jinja_search(text, by, from)) != SIZE_MAX) {
        if (!add_part(p, (np_bytes){text.p + from, at - from}))
            return false;
        from = at + by.n;
    }
    return add_part(p, (np_bytes){text.p + from, text.n - from});
}

static bool empty_parts(np_jinja *j, parts *p)
{
    *p = (parts){.j = j};
    return np_jinja_new_list(j, 0, NP_JINJA_PLAIN, &p->list);
}

static bool plain_only(np_jinja *j, value self)
{
    return self.form == NP_JINJA_PLAIN ||
           np_jinja_fail(j, NEAP_EUNSUPPORTED, "this method of a string from the filter \"safe\"");
}

static bool str_split(np_jinja *j, value self, const value *at, value *out)
{
    parts p;
    int64_t most;
    if (!plain_only(j, self) || !np_jinja_whole_or(j, at[1], -1, &most) || !empty_parts(j, &p) ||
        (given(at[0]) && !need_string(j, at[0])) || !np_jinja_step(j, self.text.n / 16))
        return false;
    if (given(at[0]) && at[0].text.n == 0)
        return NP_JINJA_RAISE(j, "split at an empty string");
    if (!(given(at[0]) ? split_at(&p, self.text, at[0].text, most) : split_spaces(&p, self.text, most)))
        return false;
    *out = p.list;
    return true;
}

/* Where `what` begins the last time before `end`, or SIZE_MAX. */
static bool search_back(np_jinja *j, np_bytes text, np_bytes what, size_t end, size_t *out)
{
    size_t at = end < what.n ? 0 : end - what.n + 1;
    *out = SIZE_MAX;
    while (what.n <= end && at-- > 0) {
        if (at % NP_JINJA_STEP_BYTES == 0 && !np_jinja_step(j, 1 + what.n))
            return false;
        if (memcmp(text.p + at, what.p, what.n) == 0) {
            *out = at;
            break;
        }
    }
    return true;
}

static bool str_rsplit(np_jinja *j, value self, const value *at, value *out)
{
    parts p;
    int64_t most;
    if (!given(at[0]) || !given(at[1]))
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "rsplit without a string and a number");
    if (!plain_only(j, self) || !np_jinja_whole_or(j, at[1], -1, &most) || !need_string(j, at[0]) ||
        !empty_parts(j, &p) || !np_jinja_step(j, self.text.n / 16))
        return false;
    if (at[0].text.n == 0)
        return NP_JINJA_RAISE(j, "split at an empty string");
    size_t end = self.text.n, found;
    while (most < 0 || (int64_t)p.n < most) {
        if (!search_back(j, self.text, at[0].text, end, &found))
            return false;
        if (found == SIZE_MAX)
            break;
        if (!add_part(&p, (np_bytes){self.text.p + found + at[0].text.n, end - found - at[0].text.n}))
            return false;
        end = found;
    }
    if (!add_part(&p, (np_bytes){self.text.p, end}))
        return false;
    for (size_t i = 0; i < p.n / 2; i++) {
        const value swap = p.list.list->at[i];
        p.list.list->at[i] = p.list.list->at[p.n - 1 - i];
        p.list.list->at[p.n - 1 - i] = swap;
    }
    *out = p.list;
    return true;
}

static bool str_splitlines(np_jinja *j, value self, const value *at, value *out)
{
    parts p;
    uint32_t code;
    const bool keep = given(at[0]) && np_jinja_truth(at[0]);
    if (!plain_only(j, self) || !empty_parts(j, &p) || !np_jinja_text_step(j, self.text))
        return false;
    const np_bytes text = self.text;
    size_t from = 0;
    for (size_t i = 0, n; i < text.n; i += n) {
        n = np_jinja_char(text.p + i, text.n - i, &code);
        if (!((code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 || code == 0x2028 ||
              code == 0x2029))
            continue;
        if (code == '\r' && i + 1 < text.n && text.p[i + 1] == '\n')
            n++;
        if (!add_part(&p, (np_bytes){text.p + from, i + (keep ? n : 0) - from}))
            return false;
        from = i + n;
    }
    if (from < text.n && !add_part(&p, (np_bytes){text.p + from, text.n - from}))
        return false;
    *out = p.list;
    return true;
}

/* Begins or ends the text with one of these? */
static bool affix(np_jinja *j, value self, const value *at, bool end, value *out)
{
    np_jinja_list several = {.at = (value *)&at[0], .n = 1};
    if (given(at[1]) || given(at[2]))
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "startswith and endswith of a part");
    if (at[0].kind == NP_JINJA_LIST && at[0].form == NP_JINJA_TUPLE)
        several = *at[0].list;
    bool yes = false;
    for (size_t i = 0; i < several.n && !yes; i++) {
        if (!need_string(j, several.at[i]) || !np_jinja_text_step(j, several.at[i].text))
            return false;
        const np_bytes what = several.at[i].text;
        yes = what.n <= self.text.n &&
              (what.n == 0 || memcmp(self.text.p + (end ? self.text.n - what.n : 0), what.p, what.n) == 0);
    }
    *out = np_jinja_yes(yes);
    return true;
}

static bool str_startswith(np_jinja *j, value self, const value *at, value *out)
{
    return affix(j, self, at, false, out);
}
static bool str_endswith(np_jinja *j, value self, const value *at, value *out)
{
    return affix(j, self, at, true, out);
}

static bool str_replace(np_jinja *j, value self, const value *at, value *out)
{
    int64_t most;
    if (!plain_only(j, self) || !need_string(j, at[0]) || !need_string(j, at[1]) ||
        !np_jinja_whole_or(j, at[2], -1, &most) || !np_jinja_step(j, self.text.n / 16))
        return false;
    const np_bytes text = self.text, old = at[0].text, new = at[1].text;
    const size_t start = j->out->length;
    size_t from = 0, found = 0;
    uint32_t code;
    bool good = true;
    for (int64_t n = 0; good && (most < 0 || n < most); n++) {
        if (old.n == 0) { /* before each character and at the end */
            if (n > 0 && from == text.n)
                break;
            const size_t one = n > 0 ? np_jinja_char(text.p + from, text.n - from, &code) : 0;
            good = np_jinja_write(j, text.p + from, one) && np_jinja_write(j, new.p, new.n) && np_jinja_step(j, 1);
            from += one;
            continue;
        }
        if ((found = np_jinja_search(text, old, from)) == SIZE_MAX)
            break;
        good = np_jinja_write(j, text.p + from, found - from) && np_jinja_write(j, new.p, new.n) &&
               np_jinja_step(j, 1);
        from = found + old.n;
    }
    return good && np_jinja_write(j, text.p + from, text.n - from) && np_jinja_taken(j, start, out);
}

/* find, index, rfind: the place in characters */
static bool find(np_jinja *j, value self, const value *at, bool back, bool must, value *out)
{
    if (!need_string(j, at[0]) || !np_jinja_step(j, self.text.n / 16))
        return false;
    if (given(at[1]) || given(at[2]))
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "find in a part");
    size_t found = back ? SIZE_MAX : np_jinja_search(self.text, at[0].text, 0);
    if (back && !search_back(j, self.text, at[0].text, self.text.n, &found))
        return false;
    if (found == SIZE_MAX && must)
        return NP_JINJA_RAISE(j, "index: not found");
    *out = np_jinja_whole(found == SIZE_MAX ? -1 : (int64_t)np_jinja_char_count((np_bytes){self.text.p, found}));
    return true;
}

static bool str_find(np_jinja *j, value self, const value *at, value *out)
{
    return find(j, self, at, false, false, out);
}
static bool str_rfind(np_jinja *j, value self, const value *at, value *out)
{
    return find(j, self, at, true, false, out);
}
static bool str_index(np_jinja *j, value self, const value *at, value *out)
{
    return find(j, self, at, false, true, out);
}

static bool str_count(np_jinja *j, value self, const value *at, value *out)
{
    if (!need_string(j, at[0]) || !np_jinja_step(j, self.text.n / 16))
        return false;
    int64_t n = 0;
    if (at[0].text.n == 0)
        n = (int64_t)np_jinja_char_count(self.text) + 1;
    for (size_t from = 0; at[0].text.n && (from = np_jinja_search(self.text, at[0].text, from)) != SIZE_MAX;
         from += at[0].text.n)
        n++;
    *out = np_jinja_whole(n);
    return true;
}

static bool str_join(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_list items;
    if (!plain_only(j, self) || !np_jinja_items(j, at[0], &items))
        return false;
    np_bytes *texts = np_jinja_take(j, items.n * 2 + 1, sizeof *texts);
    if (!texts)
        return false;
    for (size_t i = 0; i < items.n; i++) {
        if (!need_string(j, items.at[i]))
            return false;
        texts[2 * i] = items.at[i].text;
        texts[2 * i + 1] = self.text;
    }
    return np_jinja_concat(j, texts, items.n ? items.n * 2 - 1 : 0, out);
}

static bool partition(np_jinja *j, value self, const value *at, bool back, value *out)
{
    if (!plain_only(j, self) || !need_string(j, at[0]) || !np_jinja_step(j, self.text.n / 16))
        return false;
    const np_bytes text = self.text, by = at[0].text;
    if (by.n == 0)
        return NP_JINJA_RAISE(j, "partition at an empty string");
    size_t found = back ? SIZE_MAX : np_jinja_search(text, by, 0);
    if (back && !search_back(j, text, by, text.n, &found))
        return false;
    if (!np_jinja_new_list(j, 3, NP_JINJA_TUPLE, out))
        return false;
    value *three = out->list->at;
    three[0] = three[1] = three[2] = np_jinja_string("");
    if (found == SIZE_MAX) {
        three[back ? 2 : 0] = self;
        return true;
    }
    three[0] = np_jinja_text((np_bytes){text.p, found});
    three[1] = np_jinja_text(by);
    three[2] = np_jinja_text((np_bytes){text.p + found + by.n, text.n - found - by.n});
    return true;
}

static bool str_partition(np_jinja *j, value self, const value *at, value *out)
{
    return partition(j, self, at, false, out);
}
static bool str_rpartition(np_jinja *j, value self, const value *at, value *out)
{
    return partition(j, self, at, true, out);
}

static bool remove_affix(np_jinja *j, value self, const value *at, bool end, value *out)
{
    value yes;
    const value only[3] = {at[0], {.kind = NP_JINJA_ABSENT}, {.kind = NP_JINJA_ABSENT}};
    if (!need_string(j, at[0]) || !affix(j, self, only, end, &yes))
        return false;
    *out = self;
    if (yes.yes) {
        out->text.n -= at[0].text.n;
        out->text.p += end ? 0 : at[0].text.n;
    }
    return true;
}

static bool str_removeprefix(np_jinja *j, value self, const value *at, value *out)
{
    return remove_affix(j, self, at, false, out);
}
static bool str_removesuffix(np_jinja *j, value self, const value *at, value *out)
{
    return remove_affix(j, self, at, true, out);
}

static bool str_isspace(np_jinja *j, value self, const value *at, value *out)
{
    np_bytes rest;
    (void)at;
    if (!np_jinja_stripped(j, self.text, NULL, true, false, &rest))
        return false;
    *out = np_jinja_yes(self.text.n && rest.n == 0);
    return true;
}

static bool ascii_only(np_jinja *j, np_bytes text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] >= 0x80)
            return np_jinja_fail(j, NEAP_EUNSUPPORTED, "isdigit and isalpha of letters outside of ASCII");
    return true;
}

static bool all_in(np_jinja *j, value self, bool letters, bool digits, value *out)
{
    bool yes = self.text.n > 0;
    if (!np_jinja_text_step(j, self.text) || !ascii_only(j, self.text))
        return false;
    for (size_t i = 0; i < self.text.n; i++) {
        const uint8_t c = self.text.p[i], lower = c | 32;
        yes = yes && ((letters && lower >= 'a' && lower <= 'z') || (digits && c >= '0' && c <= '9'));
    }
    *out = np_jinja_yes(yes);
    return true;
}

static bool str_isdigit(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return all_in(j, self, false, true, out);
}
static bool str_isalpha(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return all_in(j, self, true, false, out);
}
static bool str_isalnum(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return all_in(j, self, true, true, out);
}
static bool str_isupper(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    *out = np_jinja_yes(np_jinja_is_case(self.text, true));
    return np_jinja_text_step(j, self.text);
}
static bool str_islower(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    *out = np_jinja_yes(np_jinja_is_case(self.text, false));
    return np_jinja_text_step(j, self.text);
}

/* The argument that {}, {0} or {name} stands for. */
static bool format_field(np_jinja *j, np_bytes field, const np_jinja_call *call, size_t *next, value *out)
{
    size_t at = *next;
    bool digits = true;
    for (size_t i = 0; i < field.n; i++) {
        digits = digits && field.p[i] >= '0' && field.p[i] <= '9';
        at = i == 0 ? 0 : at;
        at = at < 1000 ? at * 10 + (size_t)(field.p[i] - '0') : at;
        if (strchr(".[!:", field.p[i]) || !field.p[i])
            return np_jinja_fail(j, NEAP_EUNSUPPORTED, "format with more than a name in its braces");
    }
    if (field.n == 0)
        ++*next;
    if (digits && at < call->n) {
        *out = call->at[at];
        return true;
    }
    for (size_t i = 0; !digits && i < call->n_named; i++)
        if (np_jinja_same_bytes(call->named[i].key.text, field)) {
            *out = call->named[i].value;
            return true;
        }
    return NP_JINJA_RAISE(j, "format has no value for {%s}", np_show(field).text);
}

static bool str_format(np_jinja *j, value self, const np_jinja_call *call, value *out)
{
    const np_bytes text = self.text;
    const size_t start = j->out->length;
    size_t next = 0;
    if (!plain_only(j, self))
        return false;
    for (size_t i = 0; i < text.n; i++) {
        const uint8_t c = text.p[i];
        value v;
        if (c != '{' && c != '}') {
            if (!np_jinja_write(j, &c, 1))
                return false;
        } else if (i + 1 < text.n && text.p[i + 1] == c) {
            i++;
            if (!np_jinja_write(j, &c, 1))
                return false;
        } else {
            const uint8_t *end = c == '{' ? memchr(text.p + i, '}', text.n - i) : NULL;
            if (!end)
                return NP_JINJA_RAISE(j, "format with a single brace");
            const np_bytes field = {text.p + i + 1, (uint64_t)(end - text.p) - i - 1};
            if (!format_field(j, field, call, &next, &v) || !np_jinja_print(j, v))
                return false;
            i = (size_t)(end - text.p);
        }
    }
    return np_jinja_taken(j, start, out);
}

/* ---- dicts, lists, loops ----------------------------------------------------------------------- */

static bool dict_get(np_jinja *j, value self, const value *at, value *out)
{
    const value *item = np_jinja_find(self.dict, at[0]);
    *out = item ? *item : at[1].kind == NP_JINJA_ABSENT ? NP_JINJA_NOTHING : at[1];
    return np_jinja_find_step(j, self.dict, at[0]);
}

static bool dict_view(np_jinja *j, value self, int which, value *out)
{
    const np_jinja_dict *d = self.dict;
    if (!np_jinja_new_list(j, d->n, NP_JINJA_VIEW, out))
        return false;
    for (size_t i = 0; i < d->n; i++) {
        value pair;
        if (which < 2) {
            out->list->at[i] = which ? d->at[i].value : d->at[i].key;
            continue;
        }
        if (!np_jinja_new_list(j, 2, NP_JINJA_TUPLE, &pair))
            return false;
        pair.list->at[0] = d->at[i].key;
        pair.list->at[1] = d->at[i].value;
        out->list->at[i] = pair;
    }
    return true;
}

static bool dict_keys(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return dict_view(j, self, 0, out);
}
static bool dict_values(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return dict_view(j, self, 1, out);
}
static bool dict_items(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return dict_view(j, self, 2, out);
}

static bool same(np_jinja *j, value self, const value *at, value *out)
{
    (void)j, (void)at; /* nothing changes a list or a dict, so a copy is itself */
    *out = self;
    return true;
}

static bool list_count(np_jinja *j, value self, const value *at, value *out)
{
    int64_t n = 0;
    bool yes;
    for (size_t i = 0; i < self.list->n; i++, n += yes)
        if (!np_jinja_equal(j, self.list->at[i], at[0], &yes))
            return false;
    *out = np_jinja_whole(n);
    return true;
}

static bool list_index(np_jinja *j, value self, const value *at, value *out)
{
    bool yes = false;
    size_t i = 0;
    for (; i < self.list->n && !yes; i++)
        if (!np_jinja_equal(j, self.list->at[i], at[0], &yes))
            return false;
    *out = np_jinja_whole((int64_t)i - 1);
    return yes || NP_JINJA_RAISE(j, "index: not found");
}

static bool loop_cycle(np_jinja *j, value self, const np_jinja_call *call, value *out)
{
    if (call->n == 0 || call->n_named)
        return NP_JINJA_RAISE(j, "loop.cycle without values");
    *out = call->at[self.loop->index % call->n];
    return true;
}

static bool loop_changed(np_jinja *j, value self, const np_jinja_call *call, value *out)
{
    value now;
    bool yes = false;
    if (!np_jinja_new_list(j, call->n, NP_JINJA_TUPLE, &now))
        return false;
    if (call->n)
        memcpy(now.list->at, call->at, call->n * sizeof *call->at);
    if (self.loop->has_changed && !np_jinja_equal(j, now, self.loop->changed, &yes))
        return false;
    self.loop->has_changed = true;
    self.loop->changed = now;
    *out = np_jinja_yes(!yes);
    return true;
}

/* ---- the tables -------------------------------------------------------------------------------- */

static const np_jinja_row string_rows[] = {
    {"capitalize",   str_capitalize,   0, {0},                       NULL      },
    {"count",        str_count,        1, {"sub"},                   NULL      },
    {"endswith",     str_endswith,     1, {"suffix", "start", "end"}, NULL     },
    {"find",         str_find,         1, {"sub", "start", "end"},   NULL      },
    {"format",       NULL,             0, {0},                       str_format},
    {"index",        str_index,        1, {"sub", "start", "end"},   NULL      },
    {"isalnum",      str_isalnum,      0, {0},                       NULL      },
    {"isalpha",      str_isalpha,      0, {0},                       NULL      },
    {"isdigit",      str_isdigit,      0, {0},                       NULL      },
    {"islower",      str_islower,      0, {0},                       NULL      },
    {"isspace",      str_isspace,      0, {0},                       NULL      },
    {"isupper",      str_isupper,      0, {0},                       NULL      },
    {"join",         str_join,         1, {"iterable"},              NULL      },
    {"lower",        str_lower,        0, {0},                       NULL      },
    {"lstrip",       str_lstrip,       0, {"chars"},                 NULL      },
    {"partition",    str_partition,    1, {"sep"},                   NULL      },
    {"removeprefix", str_removeprefix, 1, {"prefix"},                NULL      },
    {"removesuffix", str_removesuffix, 1, {"suffix"},                NULL      },
    {"replace",      str_replace,      2, {"old", "new", "count"},   NULL      },
    {"rfind",        str_rfind,        1, {"sub", "start", "end"},   NULL      },
    {"rpartition",   str_rpartition,   1, {"sep"},                   NULL      },
    {"rsplit",       str_rsplit,       0, {"sep", "maxsplit"},       NULL      },
    {"rstrip",       str_rstrip,       0, {"chars"},                 NULL      },
    {"split",        str_split,        0, {"sep", "maxsplit"},       NULL      },
    {"splitlines",   str_splitlines,   0, {"keepends"},              NULL      },
    {"startswith",   str_startswith,   1, {"prefix", "start", "end"}, NULL     },
    {"strip",        str_strip,        0, {"chars"},                 NULL      },
    {"title",        str_title,        0, {0},                       NULL      },
    {"upper",        str_upper,        0, {0},                       NULL      },
    {NULL,           NULL,             0, {0},                       NULL      },
};
static const np_jinja_row dict_rows[] = {
    {"copy",   same,        0, {0},                NULL},
    {"get",    dict_get,    1, {"key", "default"}, NULL},
    {"items",  dict_items,  0, {0},                NULL},
    {"keys",   dict_keys,   0, {0},                NULL},
    {"values", dict_values, 0, {0},                NULL},
    {NULL,     NULL,        0, {0},                NULL},
};
static const np_jinja_row list_rows[] = {
    {"count", list_count, 1, {"value"}, NULL},
    {"index", list_index, 1, {"value"}, NULL},
    {"copy",  same,       0, {0},       NULL},
    {NULL,    NULL,       0, {0},       NULL},
};
static const np_jinja_row loop_rows[] = {
    {"changed", NULL, 0, {0}, loop_changed},
    {"cycle",   NULL, 0, {0}, loop_cycle  },
    {NULL,      NULL, 0, {0}, NULL        },
};

/* What Python has and this has not; what would change a list or a dict, a template may not do. */
static const char *const string_refused[] = {
    "casefold", "center",    "encode",   "expandtabs", "format_map", "isascii",   "isdecimal", "isidentifier",
    "isnumeric", "isprintable", "istitle", "ljust",   "maketrans",  "rindex",    "rjust",     "swapcase",
    "translate", "zfill",    NULL};
static const char *const dict_refused[] = {"fromkeys", NULL};
static const char *const number_refused[] = {"as_integer_ratio", "bit_count", "bit_length", "conjugate",
                                             "denominator",      "from_bytes", "fromhex",   "hex",
                                             "imag",             "is_integer", "numerator", "real",
                                             "to_bytes",         NULL};
static const char *const none_refused[] = {NULL};

bool np_jinja_method(np_jinja *j, value self, np_bytes name, value *out)
{
    const np_jinja_row *row = NULL;
    const char *const *refused = none_refused;
    if (np_jinja_is_string(self)) {
        row = string_rows;
        refused = string_refused;
    } else if (self.kind == NP_JINJA_DICT) {
        row = dict_rows;
        refused = dict_refused;
    } else if (self.kind == NP_JINJA_LIST && self.form != NP_JINJA_VIEW && self.form != NP_JINJA_GENERATOR) {
        row = list_rows;
    } else if (self.kind == NP_JINJA_LOOP) {
        row = loop_rows;
    } else if (self.kind == NP_JINJA_INT || self.kind == NP_JINJA_FLOAT || self.kind == NP_JINJA_BOOL) {
        refused = number_refused;
    }
    *out = np_jinja_undefined(name);
    for (; row && row->name; row++) {
        if (!np_jinja_is(name, row->name))
            continue;
        np_jinja_bound *bound = np_jinja_take(j, 1, sizeof *bound);
        if (!bound)
            return false;
        *bound = (np_jinja_bound){self, row};
        *out = (value){.kind = NP_JINJA_METHOD, .bound = bound};
        return true;
    }
    for (; *refused; refused++)
        if (np_jinja_is(name, *refused))
            return np_jinja_fail(j, NEAP_EUNSUPPORTED, "\"%s\" of a %s", *refused, np_jinja_type(self));
    return true;
}
