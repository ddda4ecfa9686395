// SPDX-License-Identifier: Apache-2.0
// Runs the plan argv[1] on ones, through the C ABI.
#include <sinter/sinter_c.h>
#include <stdio.h>
#include <stdlib.h>

static int check(sinter_status status, const char* what) {
  if (status != SINTER_OK)
    fprintf(stderr, "%s: %s: %s\n", what, sinter_status_name(status), sinter_last_error());
  return status == SINTER_OK;
}

int main(int argc, char** argv) {
  sinter_plan* plan = NULL;
  sinter_session* session = NULL;
  sinter_binding input = {0};
  sinter_tensor x = {0}, y = {0};
  int64_t shape[8], count = 1;
  float* ones;
  int i, ok;
  if (argc != 2) return 2;
  if (!check(sinter_plan_load(argv[1], &plan), "load")) return 1;
  input.struct_size = sizeof input;
  if (!check(sinter_plan_input(plan, 0, &input), "input") || input.rank > 8) return 1;
  for (i = 0; i < input.rank; ++i) count *= shape[i] = input.shape[i].min;
  ones = malloc((size_t)count * sizeof *ones);
  if (ones == NULL) return 1;
  for (i = 0; i < count; ++i) ones[i] = 1;
  x.struct_size = y.struct_size = sizeof x;
  x.dtype = SINTER_FLOAT32;
  x.rank = input.rank;
  x.shape = shape;
  x.data = ones;
  x.bytes = (size_t)count * sizeof *ones;
  ok = check(sinter_session_create(plan, NULL, &session), "session");
  sinter_plan_free(plan);  // the session keeps what it needs
  ok = ok && check(sinter_session_set_input(session, 0, &x), "set_input") &&
       check(sinter_session_run(session), "run") &&
       check(sinter_session_output(session, 0, &y), "output");
  if (ok) printf("sinter %s from C: %d bytes\n", sinter_version(), (int)y.bytes);
  x.bytes -= 1;  // too few bytes are an error, not a read beyond them
  ok = ok && sinter_session_set_input(session, 0, &x) == SINTER_ERROR_USAGE;
  sinter_session_free(session);
  free(ones);
  return ok ? 0 : 1;
}
