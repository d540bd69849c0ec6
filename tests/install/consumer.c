/* consumer.c - a program outside this tree, built against the installed library: it is here for the
 * include path, the link line and the run-time path, not for what the library does. */
#include <neap/base.h>
#include <stdio.h>

int main(void)
{
    neap_context *ctx;
    neap_status status = neap_context_new(NULL, &ctx);
    if (status != NEAP_OK) {
        fprintf(stderr, "consumer: %s\n", neap_status_text(status));
        return 1;
    }
    printf("consumer: kernels %s, %d threads\n", neap_context_isa(ctx), neap_context_threads(ctx));
    neap_context_free(ctx);
    return 0;
}
