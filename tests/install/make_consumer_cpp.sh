#!/usr/bin/env bash
# Prints a C++ program that includes every public header and starts every struct from its
# initialiser: make_consumer_cpp.sh INCLUDE_DIR
set -euo pipefail
cd "$1/neap"
for header in *.h; do echo "#include <neap/$header>"; done
echo '#include <cstdio>'
echo 'template <class T> static int wrong(const char *name, const T &t, std::size_t size)'
echo '{ if (t.size == size) return 0; std::printf("%s: its size is not set\n", name); return 1; }'
echo 'static int check_all() { int n = 0;'
sed -n 's/^#define \(NEAP_[A-Z_]*_INIT\)\b.*/\1/p' ./*.h | sort | while read -r init; do
    type=$(echo "${init%_INIT}" | tr A-Z a-z)
    echo "{ $type v = $init; n += wrong(\"$init\", v, sizeof v); }"
done
cat <<'END'
    neap_session_options s = NEAP_SESSION_OPTIONS_INIT;
    neap_conv_options c = NEAP_CONV_OPTIONS_INIT;
    neap_sampler_options p = NEAP_SAMPLER_OPTIONS_INIT;
    if (!s.decode || s.kv_type != NEAP_F16 || s.context != 0 || c.spatial != 1 || c.stride[2] != 1 ||
        c.padding[0] != 0 || c.groups != 1 || p.top_p != 1.0f || p.top_k != 0) {
        std::printf("a default is not what the header says\n");
        n++;
    }
    return n;
}
int main()
{
    neap_context *ctx = nullptr;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.memory_limit = 8 << 20;
    o.threads = 1;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        return 1;
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    const int wrong = check_all() + (m.limit != o.memory_limit);
    std::printf("consumer in C++: kernels %s\n", neap_context_isa(ctx));
    neap_context_free(ctx);
    return wrong;
}
END
