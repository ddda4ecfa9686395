// SPDX-License-Identifier: Apache-2.0
// The models of a server by name: loaded, replaced and unloaded while requests run.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <sinter/export.h>

#include "tools/serve/models/served_model.h"

namespace sinter::tools {

/// Members may be called from any thread. A request keeps its model: one that is unloaded or
/// replaced ends when its last request has.
class ModelRegistry {
 public:
  /// Loads that wait for the one that runs; more are refused.
  static constexpr int kMostWaitingLoads = 8;

  /// Loads a model, and then puts it in the place of one of that name. One at a time. Throws as
  /// ServedModel does, and ApiError (429) if too many loads wait; then nothing has changed.
  void load(const std::string& name, ServedModelOptions options);
  /// The same of one that is loaded, from no files: it cannot be loaded anew.
  void put(std::shared_ptr<ServedModel> model);
  /// What it was loaded from stays known. Throws ApiError (404) if there is none.
  SINTER_API void unload(const std::string& name);
  /// Loads what has or had that name anew, from the same files. Throws as both.
  SINTER_API void reload(const std::string& name);

  /// Of no name: the only model. Throws ApiError (404) if there is none.
  SINTER_API std::shared_ptr<ServedModel> find(const std::string& name) const;
  /// Those that are loaded.
  SINTER_API std::vector<std::shared_ptr<ServedModel>> all() const;
  /// Names of those that were unloaded.
  SINTER_API std::vector<std::string> unloaded() const;
  /// Of a model that is not ready, if there is one; not ready where none is loaded.
  SINTER_API ModelState state() const;
  /// Waits until the requests of all models have ended; they take no more.
  void drain();

 private:
  struct Entry {
    ServedModelOptions options;
    std::shared_ptr<ServedModel> model;  // null: unloaded
  };
  void put(std::shared_ptr<ServedModel> model, ServedModelOptions options);
  class LoadTurn;

  mutable std::mutex mutex_;
  std::condition_variable turn_ended_;
  std::map<std::string, Entry> models_;
  bool is_loading_ = false;
  int waiting_loads_ = 0;
};

}  // namespace sinter::tools
