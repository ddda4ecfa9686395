// SPDX-License-Identifier: Apache-2.0
// pysinter._core: the extension. Everything that Python's part of the package builds on.
#include "tools/python/src/operators.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/tables.h"

NB_MODULE(_core, module) {
  using namespace sinter::python;
  // Plans that a program still holds at exit are no leak.
  nanobind::set_leak_warnings(false);
  process_generation();
  bind_errors(module);
  bind_runtime(module);
  bind_operators(module);
  bind_compiler(module);
  bind_plan(module);
  bind_session(module);
  bind_engine(module);
  bind_tables(module);
  bind_table_session(module);
}
