/* status.c - names and texts of status codes and memory categories. */
#include "neap/base.h"

const char *neap_status_name(neap_status status)
{
    switch (status) {
#define NEAP_STATUS(name, value, text) \
    case NEAP_##name:                  \
        return "NEAP_" #name;
#include "neap/status.def"
#undef NEAP_STATUS
    }
    return "NEAP_?";
}

const char *neap_status_text(neap_status status)
{
    switch (status) {
#define NEAP_STATUS(name, value, text) \
    case NEAP_##name:                  \
        return text;
#include "neap/status.def"
#undef NEAP_STATUS
    }
    return "unknown status";
}

const char *neap_memory_category_name(neap_memory_category category)
{
    static const char *const names[NEAP_MEM_CATEGORIES] = {
        "weights", "state", "activations", "scratch", "graph", "communication", "host"};
    return (unsigned)category < NEAP_MEM_CATEGORIES ? names[category] : "unknown";
}
