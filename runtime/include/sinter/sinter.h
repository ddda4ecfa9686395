// SPDX-License-Identifier: Apache-2.0
// Sinter's public API: load a plan, run it. See README.md for an example. Separate headers:
// profile.h (timing), devices.h (GPUs and their memory), dlpack.h, allocator.h, log.h, and
// sinter_c.h for C.
#pragma once

#include <sinter/dtype.h>
#include <sinter/error.h>
#include <sinter/export.h>
#include <sinter/plan.h>
#include <sinter/session.h>
#include <sinter/tensor.h>
#include <sinter/version.h>
