/* places.h - where a test finds what lies outside this repository: the shared cases in NEAP_SHARED,
 * else in ../shared; the real model in NEAP_MODEL, else the first of .models/ (`make model`).
 * Each tells when the thing is absent, so that a skipped test says what it lacks. */
#ifndef TEST_PLACES_H
#define TEST_PLACES_H

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct test_path {
    char text[1024];
} test_path;

static inline bool test_path_is_there(const test_path *p, const char *variable)
{
    if (access(p->text, R_OK) == 0)
        return true;
    printf("skipped: no %s; %s names another place\n", p->text, variable);
    return false;
}

/* test_shared_path("models/smollm2/reference.json", &p) */
static inline bool test_shared_path(const char *name, test_path *out)
{
    const char *shared = getenv("NEAP_SHARED");
    if (shared && *shared)
        snprintf(out->text, sizeof out->text, "%s/%s", shared, name);
    else
        snprintf(out->text, sizeof out->text, "%s/../../shared/%s", NEAP_TEST_DIR, name);
    return test_path_is_there(out, "NEAP_SHARED");
}

static inline bool test_model_path(test_path *out)
{
    const char *model = getenv("NEAP_MODEL");
    if (model && *model) {
        snprintf(out->text, sizeof out->text, "%s", model);
        return test_path_is_there(out, "NEAP_MODEL");
    }
    const char *pattern = NEAP_TEST_DIR "/../.models/*.gguf";
    glob_t found;
    bool any = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    snprintf(out->text, sizeof out->text, "%s", any ? found.gl_pathv[0] : pattern);
    if (any)
        globfree(&found);
    return test_path_is_there(out, "NEAP_MODEL");
}

#endif
