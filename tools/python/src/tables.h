// SPDX-License-Identifier: Apache-2.0
// Record batches of Arrow as Python's objects.
#pragma once

#include <memory>

#include <nanobind/nanobind.h>
#include <sinter/arrow.h>

namespace sinter::python {

namespace nb = nanobind;

struct HeldSchema {
  ArrowSchema schema{};

  HeldSchema() = default;
  HeldSchema(const HeldSchema&) = delete;
  HeldSchema& operator=(const HeldSchema&) = delete;
  ~HeldSchema() {
    if (schema.release) schema.release(&schema);
  }
};

/// An array taken from its producer; the last owner releases it.
struct HeldBatch {
  std::shared_ptr<const HeldSchema> schema;
  ArrowDeviceArray array{{}, -1, ARROW_DEVICE_CPU, nullptr, {}};

  HeldBatch() = default;
  HeldBatch(const HeldBatch&) = delete;
  HeldBatch& operator=(const HeldBatch&) = delete;
  ~HeldBatch() {
    if (array.array.release) array.array.release(&array.array);
  }
};

/// sinter._core.Batch.
struct BatchObject {
  std::shared_ptr<const HeldBatch> held;
};

void bind_tables(nb::module_& module);
void bind_table_session(nb::module_& module);

}  // namespace sinter::python
