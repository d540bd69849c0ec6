/* budget.c - what a model needs before it runs, then a run inside exactly that: budget MODEL.gguf
 *
 * The first context has no limit and only plans: no weight is read, no cache taken. The second has
 * the least budget as its limit, and its measured peak is the planned one. */
#include <neap/model.h>
#include <stdio.h>
#include <string.h>

enum { CONTEXT = 512, NEW_TOKENS = 16 };
static const char prompt[] = "The tide is";

static bool keep_going(void *user, int32_t id, const char *text, size_t length, const float *logits)
{
    (void)user, (void)id, (void)logits;
    fwrite(text, 1, length, stdout);
    return true;
}

/* Plans within `budget` bytes (0: no limit) and runs if `go`. `info` tells what was planned. */
static neap_status plan_and_run(neap_context *ctx, const char *path, uint64_t budget, bool go,
                                neap_session_info *info)
{
    neap_model *model = NULL;
    neap_session *session = NULL;
    neap_ids ids = {0};
    neap_status status = neap_model_open(ctx, path, &model);
    if (status == NEAP_OK)
        status = neap_tokenizer_encode(ctx, neap_model_tokenizer(model), prompt, strlen(prompt), 0,
                                       &ids);
    if (status == NEAP_OK) {
        neap_session_options options = NEAP_SESSION_OPTIONS_INIT;
        options.context = CONTEXT;
        options.prompt = (int64_t)ids.count;
        options.memory = budget;
        status = neap_session_new(model, &options, &session);
    }
    if (status == NEAP_OK)
        neap_session_describe(session, info);
    if (status == NEAP_OK && go) {
        neap_generate_options options = NEAP_GENERATE_OPTIONS_INIT;
        neap_generate_result result = NEAP_GENERATE_RESULT_INIT;
        options.max_tokens = NEW_TOKENS;
        options.on_token = keep_going;
        status = neap_generate(session, ids.data, (int64_t)ids.count, &options, &result);
        printf("\n");
    }
    neap_session_free(session);
    neap_ids_free(ctx, &ids);
    neap_model_free(model);
    return status;
}

static neap_status in_new_context(const char *path, uint64_t budget, bool go,
                                  neap_session_info *info)
{
    neap_context *ctx;
    neap_status status = neap_context_new(NULL, &ctx);
    if (status != NEAP_OK)
        return status;
    status = plan_and_run(ctx, path, budget, go, info);
    if (status != NEAP_OK)
        printf("refused: %s\n", neap_context_error(ctx));
    neap_memory_info memory = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &memory);
    if (status == NEAP_OK && go)
        printf("planned peak %llu, measured peak %llu bytes\n",
               (unsigned long long)info->planned_peak_bytes, (unsigned long long)memory.peak);
    neap_context_free(ctx);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: budget MODEL.gguf\n");
        return 2;
    }
    neap_session_info info = NEAP_SESSION_INFO_INIT, second = NEAP_SESSION_INFO_INIT;
    if (in_new_context(argv[1], 0, false, &info) != NEAP_OK)
        return 1;
    printf("peak %llu bytes with room, at least %llu\n",
           (unsigned long long)info.planned_peak_bytes, (unsigned long long)info.least_bytes);
    if (in_new_context(argv[1], info.least_bytes, true, &second) != NEAP_OK)
        return 1;
    return in_new_context(argv[1], info.least_bytes - 1, true, &second) == NEAP_ENOMEM ? 0 : 1;
}
