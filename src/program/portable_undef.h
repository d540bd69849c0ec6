#undef OP
#undef LIST
#undef INTO
#undef NUMBER
#undef DIRECT
#undef UNARY
#undef BINARY
#undef REFUSED
