// SPDX-License-Identifier: Apache-2.0
// How the entry points of the fake driver begin.
#pragma once

#include <mutex>

#include "tests/graphs/fake_driver.h"
#include "tests/graphs/fake_streams.h"

#define ENTER(name)                         \
  const std::lock_guard lock(fake().mutex); \
  if (const CUresult failed = fake().enter(name)) return failed
// Most calls need a current context.
#define ENTER_CONTEXT(name) \
  ENTER(name);              \
  if (context_depth <= 0) return CUDA_ERROR_INVALID_CONTEXT
