// SPDX-License-Identifier: Apache-2.0
// What each ScalarOp computes on the GPU: general forms and cheaper ones.
#pragma once

#include "approximate.cuh"
#include "elementary.cuh"
#include "float8.cuh"
