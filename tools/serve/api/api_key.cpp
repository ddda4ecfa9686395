// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/api_key.h"

namespace sinter::tools {
namespace {

bool equals(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ (b.empty() ? 0 : b[i % b.size()]));
  return difference == 0;
}

}  // namespace

bool is_admitted(const std::vector<std::string>& keys, const std::string& authorization) {
  bool knows = keys.empty();
  for (const std::string& key : keys) knows = equals(authorization, "Bearer " + key) || knows;
  return knows;
}

}  // namespace sinter::tools
