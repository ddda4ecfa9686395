// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/model_registry.h"

#include <utility>

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"

namespace sinter::tools {
namespace {

ApiError no_model(const std::string& name) {
  return {404,
          fmt::format("the model '{}' does not exist: GET /v1/models lists those that do", name),
          "model"};
}
ApiError not_loaded(const std::string& name) {
  return {404,
          fmt::format("the model '{0}' is unloaded: POST /v2/repository/models/{0}/load loads it",
                      name),
          "model"};
}

}  // namespace

/// One load at a time: each takes as much memory as the model has.
class ModelRegistry::LoadTurn {
 public:
  explicit LoadTurn(ModelRegistry& registry) : registry_(registry) {
    std::unique_lock lock(registry_.mutex_);
    if (registry_.waiting_loads_ >= kMostWaitingLoads)
      throw ApiError(429, fmt::format("{} loads wait already, and one runs: try again later",
                                      kMostWaitingLoads));
    ++registry_.waiting_loads_;
    registry_.turn_ended_.wait(lock, [&] { return !registry_.is_loading_; });
    --registry_.waiting_loads_;
    registry_.is_loading_ = true;
  }
  ~LoadTurn() {
    const std::lock_guard lock(registry_.mutex_);
    registry_.is_loading_ = false;
    registry_.turn_ended_.notify_one();
  }
  LoadTurn(const LoadTurn&) = delete;
  LoadTurn& operator=(const LoadTurn&) = delete;

 private:
  ModelRegistry& registry_;
};

void ModelRegistry::load(const std::string& name, ServedModelOptions options) {
  const LoadTurn turn(*this);
  auto model = std::make_shared<ServedModel>(name, options);
  put(std::move(model), std::move(options));
}

void ModelRegistry::put(std::shared_ptr<ServedModel> model) { put(std::move(model), {}); }

void ModelRegistry::put(std::shared_ptr<ServedModel> model, ServedModelOptions options) {
  const std::lock_guard lock(mutex_);
  Entry& entry = models_[model->name()];
  entry.options = std::move(options);
  std::swap(entry.model, model);
  // What was there ends behind the lock, unless a request has it.
}

void ModelRegistry::unload(const std::string& name) {
  std::shared_ptr<ServedModel> model;
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) throw no_model(name);
  if (found->second.model == nullptr) throw not_loaded(name);
  model = std::move(found->second.model);
}

void ModelRegistry::reload(const std::string& name) {
  ServedModelOptions options;
  {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) throw no_model(name);
    options = found->second.options;
  }
  load(name, std::move(options));
}

std::shared_ptr<ServedModel> ModelRegistry::find(const std::string& name) const {
  if (name.empty()) {
    auto loaded = all();
    if (loaded.size() == 1) return loaded.front();
    throw ApiError(400, loaded.empty() ? "no model is loaded" : "which 'model'? there are several",
                   "model");
  }
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) throw no_model(name);
  if (found->second.model == nullptr) throw not_loaded(name);
  return found->second.model;
}

std::vector<std::shared_ptr<ServedModel>> ModelRegistry::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> result;
  for (const auto& [_, entry] : models_)
    if (entry.model != nullptr) result.push_back(entry.model);
  return result;
}

std::vector<std::string> ModelRegistry::unloaded() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  for (const auto& [name, entry] : models_)
    if (entry.model == nullptr) result.push_back(name);
  return result;
}

ModelState ModelRegistry::state() const {
  const auto loaded = all();
  if (loaded.empty()) return {false, "no model is loaded"};
  for (const auto& model : loaded)
    if (const ModelState state = model->state(); !state.is_ready)
      return {false, fmt::format("the model '{}' cannot answer: {}", model->name(), state.reason)};
  return {};
}

void ModelRegistry::drain() {
  for (const auto& model : all())
    if (model->engine() != nullptr) model->engine()->drain();
}

}  // namespace sinter::tools
