// SPDX-License-Identifier: Apache-2.0
/* What C programs of the tests give to C++ ones. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs a plan of y = 2 x, float32 [n], from `path` and from `bytes`, and provokes errors. 0, or the
   line of what was not as expected. */
int sinter_test_c_program(const char* path, const void* bytes, size_t size);

/* Generates text with a plan of many sequences, which gives `tokens`, 8 of them, behind `prompt`.
   0, or the line of what was not as expected. */
int sinter_test_c_engine(const char* path, const int* prompt, size_t prompt_count,
                         const int* tokens);

/* One line for each structure and member of sinter_c.h: "name size" and "name.member offset". */
const char* const* sinter_test_c_layout(size_t* count);

#ifdef __cplusplus
}
#endif
