/* tensor_file.h - what goes into a program and what comes out of it, in files: .npy for one tensor, a
 * .bin list for several.
 *
 * Files are mapped and read where they lie, so inputs are not on the ledger; only a tensor of a list
 * that does not lie on a multiple of its element's size is copied. Functions print what went wrong
 * and return an exit status. */
#ifndef CLI_TENSOR_FILE_H
#define CLI_TENSOR_FILE_H

#include <neap/program.h>

#include "cli/cli.h"

typedef struct cli_mapping {
    void *data;
    size_t bytes;
} cli_mapping;

/* Starts zeroed. */
typedef struct cli_values {
    neap_value *at;
    int count, capacity;
    cli_mapping *mapping;
    int n_mappings, mapping_capacity;
} cli_values;

int cli_values_add(cli_values *values, const neap_value *value);
/* Appends a .npy file's array, or all of a list. Copies belong to the open scope of `ctx`. */
int cli_values_read(cli_values *values, neap_context *ctx, const char *path);
/* Where the method takes an integer, a bool or a double, a single element becomes that. */
void cli_values_fit(cli_values *values, const neap_program *program, int method);
void cli_values_free(cli_values *values);

/* Is the path that of a list? By its name, .bin. */
bool cli_is_list(const char *path);
int cli_write_npy(neap_context *ctx, const char *path, const neap_value *value);
int cli_write_list(const char *path, int count, const neap_value *values);

/* One line: the number, dtype and shape; the values if they are few, else what they range over. */
void cli_print_value(int number, const neap_value *value);
/* An element of a tensor, as a double; of an integer or bool tensor exactly up to 2^53. */
double cli_element(const neap_value *tensor, int64_t i);
int64_t cli_elements(const neap_value *tensor);

#endif
