/* generate.c - text from a model file, as it is made: generate MODEL.gguf PROMPT */
#include <neap/model.h>
#include <stdio.h>
#include <string.h>

static bool print_text(void *user, int32_t id, const char *text, size_t length, const float *logits)
{
    (void)user, (void)id, (void)logits;
    fwrite(text, 1, length, stdout); /* whole characters, perhaps none */
    fflush(stdout);
    return true; /* false would stop */
}

static neap_status generate(neap_context *ctx, neap_model *model, const char *prompt)
{
    neap_ids ids = {0};
    neap_session *session = NULL;
    neap_status status = neap_tokenizer_encode(ctx, neap_model_tokenizer(model), prompt,
                                               strlen(prompt), 0, &ids);
    if (status == NEAP_OK) {
        neap_session_options options = NEAP_SESSION_OPTIONS_INIT;
        options.context = 256;
        options.prompt = (int64_t)ids.count;
        status = neap_session_new(model, &options, &session);
    }
    neap_generate_result result = NEAP_GENERATE_RESULT_INIT;
    if (status == NEAP_OK) {
        neap_generate_options options = NEAP_GENERATE_OPTIONS_INIT;
        options.max_tokens = 32;
        options.on_token = print_text;
        status = neap_generate(session, ids.data, (int64_t)ids.count, &options, &result);
    }
    if (status == NEAP_OK)
        printf("\n[%lld tokens of prompt, %lld new]\n", (long long)result.prompt_tokens,
               (long long)result.generated_tokens);
    neap_session_free(session);
    neap_ids_free(ctx, &ids);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: generate MODEL.gguf PROMPT\n");
        return 2;
    }
    neap_context *ctx;
    neap_status status = neap_context_new(NULL, &ctx);
    if (status != NEAP_OK) {
        fprintf(stderr, "generate: %s\n", neap_status_text(status));
        return 1;
    }
    neap_model *model = NULL;
    status = neap_model_open(ctx, argv[1], &model);
    if (status == NEAP_OK)
        status = generate(ctx, model, argv[2]);
    if (status != NEAP_OK)
        fprintf(stderr, "generate: %s\n", neap_context_error(ctx));
    neap_model_free(model);
    neap_context_free(ctx);
    return status == NEAP_OK ? 0 : 1;
}
