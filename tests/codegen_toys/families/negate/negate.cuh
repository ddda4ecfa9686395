// SPDX-License-Identifier: Apache-2.0
// Device code of the toy family.
#pragma once

#include "scalar.cuh"

SINTER_DEVICE float negated(float x) { return -x; }
