// SPDX-License-Identifier: Apache-2.0
/* Checks of the C programs: each leaves its function with the line of what was not as expected. */
#pragma once

#include <sinter/sinter_c.h>
#include <string.h>

#define CHECK(condition) \
  if (!(condition)) return __LINE__
#define OK(call) CHECK((call) == SINTER_OK)
#define FAILS(call, code, text) \
  CHECK((call) == (code));      \
  CHECK(strstr(sinter_last_error(), text) != NULL)
/* A function that ends with its line, or with 0. */
#define STEP(call)              \
  do {                          \
    const int line = (call);    \
    if (line != 0) return line; \
  } while (0)
