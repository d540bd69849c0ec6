#undef OP
#undef LIST
#undef INTO
#undef NUMBER
#undef UNARY
#undef BINARY
#undef REFUSED
