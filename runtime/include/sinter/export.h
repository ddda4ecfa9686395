// SPDX-License-Identifier: Apache-2.0
// Marks symbols that the libraries export; all others are hidden. C and C++.
#pragma once

#define SINTER_API __attribute__((visibility("default")))
