// The models of a server by name: loaded, replaced and unloaded while requests run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/serve/models/served_model.h"

namespace sinter::tools {

/// Members may be called from any thread. A request keeps its model: one that is unloaded or
/// replaced ends when its last request has.
class ModelRegistry {
 public:
  /// Loads a model, and then puts it in the place of one of that name. Throws as ServedModel does;
  /// then nothing has changed.
  void load(const std::string& name, ServedModelOptions options);
  /// Throws ApiError (404) if there is none.
  void unload(const std::string& name);
  /// Loads what has that name anew, from the same files. Throws as both.
  void reload(const std::string& name);

  /// Of no name: the only model. Throws ApiError (404) if there is none.
  std::shared_ptr<ServedModel> find(const std::string& name) const;
  std::vector<std::shared_ptr<ServedModel>> all() const;
  /// Waits until the requests of all models have ended; they take no more.
  void drain();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ServedModel>> models_;
};

}  // namespace sinter::tools
