// SPDX-License-Identifier: Apache-2.0
// Who may ask, as far as pages in browsers are concerned: names of the server, and origins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools::http {

/// A page of a stranger can make a browser ask this server, as one of its own name too (DNS
/// rebinding). Such a request names a host that is not the server's, or an origin that is not.
class SiteGuard {
 public:
  /// `bound`: the address that the server listens at. `hosts`: further names of it. `origins`:
  /// pages that may ask ("https://app.example", "*": all).
  SiteGuard(std::string bound, std::vector<std::string> hosts, std::vector<std::string> origins);

  /// Of the header Host: an address, localhost, this machine's name, or one of `hosts`. Nobody can
  /// make an address of a name that is none.
  bool knows_host(std::string_view host) const;
  /// Whether the header Origin is of a page of this server, which was asked as `host`.
  bool is_own(std::string_view origin, std::string_view host) const;
  /// Whether it is one of `origins`.
  bool allows(std::string_view origin) const;
  /// Whether only this machine reaches the server.
  bool is_loopback() const { return is_loopback_; }

 private:
  std::vector<std::string> names_, origins_;
  bool is_loopback_ = false;
};

}  // namespace sinter::tools::http
