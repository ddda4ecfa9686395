// What the handles of the C ABI are.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <sinter/devices.h>
#include <sinter/plan.h>
#include <sinter/session.h>
#include <sinter/sinter_c.h>

struct sinter_plan {
  explicit sinter_plan(sinter::Plan plan_in);

  sinter::Plan plan;
  // The same as C takes it; pointers into the plan.
  std::vector<std::vector<sinter_dim>> inputs, outputs, entries;
  std::vector<const char*> architectures;
  std::vector<sinter_option> options;
  std::vector<sinter_measured_error> measured;
};

struct sinter_session {
  explicit sinter_session(sinter::Session session_in)
      : session(std::move(session_in)),
        inputs(session.plan().inputs().size()),
        outputs(session.plan().outputs().size()) {}

  sinter::Session session;
  // What was set last: assigning a shape to one allocates nothing the second time.
  std::vector<sinter::TensorView> inputs;
  std::vector<sinter::MutableTensorView> outputs;
  std::atomic<bool> busy{false};
};

struct sinter_device_buffer {
  sinter::DeviceBuffer buffer;
};
