// SPDX-License-Identifier: Apache-2.0
/* Host operators of the tests. Other libraries are made of it: of another version, without a table.
 */
#include <sinter/sinter_operator.h>
#include <stdio.h>
#include <string.h>

#ifndef TEST_VERSION
#define TEST_VERSION SINTER_OPERATOR_ABI_VERSION
#endif

static size_t count_of(const sinter_operator_tensor* tensor) {
  size_t count = 1;
  int32_t i;
  for (i = 0; i < tensor->rank; ++i) count *= (size_t)tensor->shape[i];
  return count;
}

/* y[r] = bias + scale * sum of x[r, :]; the row is summed in the workspace. */
static int32_t infer_rows(const sinter_operator_call* call, int64_t* const* shapes) {
  shapes[0][0] = call->inputs[0].shape[0];
  return 0;
}
static int32_t row_workspace(const sinter_operator_call* call, size_t* bytes) {
  *bytes = (size_t)call->inputs[0].shape[0] * sizeof(double);
  return 0;
}
static int32_t sum_rows(const sinter_operator_call* call) {
  const float* x = (const float*)call->inputs[0].data;
  float* y = (float*)call->outputs[0].data;
  double* sums = (double*)call->workspace;
  const int64_t rows = call->inputs[0].shape[0], columns = call->inputs[0].shape[1];
  int64_t r, c;
  if (call->workspace_bytes != (size_t)rows * sizeof(double) || (size_t)sums % 64 != 0) return 3;
  if (call->threads < 1 || call->stream != NULL || call->attribute_count != 2) return 4;
  if (strcmp(call->attributes[0].name, "bias") != 0 || call->attributes[0].is_float) return 5;
  for (r = 0; r < rows; ++r) {
    sums[r] = 0;
    for (c = 0; c < columns; ++c) sums[r] += x[r * columns + c];
    y[r] = (float)((double)call->attributes[0].integer + call->attributes[1].real * sums[r]);
  }
  return 0;
}

static int32_t copy(const sinter_operator_call* call) {
  memcpy(call->outputs[0].data, call->inputs[0].data, count_of(&call->inputs[0]) * sizeof(float));
  return 0;
}
static int32_t fail(const sinter_operator_call* call) {
  snprintf(call->message, call->message_size, "there is no %s", "ink");
  return 7;
}
static int32_t fail_silently(const sinter_operator_call* call) {
  (void)call;
  return -1;
}
static int32_t infer_other_rows(const sinter_operator_call* call, int64_t* const* shapes) {
  shapes[0][0] = call->inputs[0].shape[0] + 1;
  return 0;
}
static int32_t fail_to_infer(const sinter_operator_call* call, int64_t* const* shapes) {
  (void)shapes;
  return fail(call);
}
static int32_t too_much_workspace(const sinter_operator_call* call, size_t* bytes) {
  (void)call;
  *bytes = (size_t)1 << 50;
  return 0;
}

static const sinter_operator operators[] = {
    {"test::RowSum", NULL, infer_rows, row_workspace, sum_rows, NULL},
    {"test::Copy", NULL, NULL, NULL, copy, NULL},
    {"test::Fail", NULL, NULL, NULL, fail, NULL},
    {"test::FailSilently", NULL, NULL, NULL, fail_silently, NULL},
    {"test::OtherSizes", NULL, infer_other_rows, NULL, copy, NULL},
    {"test::NoSizes", NULL, fail_to_infer, NULL, copy, NULL},
    {"test::Greedy", NULL, NULL, too_much_workspace, copy, NULL},
    {"test::OnGpu", NULL, NULL, NULL, NULL, copy},
};
static const sinter_operator_table table = {TEST_VERSION, sizeof(sinter_operator),
                                            sizeof operators / sizeof operators[0], operators};

#ifdef TEST_NO_TABLE
SINTER_OPERATOR_EXPORT const void* something_else(void);
const void* something_else(void) { return &table; }
#else
const sinter_operator_table* sinter_operators(void) { return &table; }
#endif
