// Licensed under the Apache License, Version 2.0 (the "License"); you may not
// use this file except in compliance with the License. You may obtain a copy of
// the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
// WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
// License for the specific language governing permissions and limitations under
// the License.

package entrypoint

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapHandler writes what the client logs with the logger of a shim.
type zapHandler struct {
	logger *zap.Logger
	group  string
}

func level(level slog.Level) zapcore.Level {
	switch {
	case level >= slog.LevelError:
		return zapcore.ErrorLevel
	case level >= slog.LevelWarn:
		return zapcore.WarnLevel
	case level >= slog.LevelInfo:
		return zapcore.InfoLevel
	}
	return zapcore.DebugLevel
}

func (h *zapHandler) Enabled(_ context.Context, of slog.Level) bool {
	return h.logger.Core().Enabled(level(of))
}

func (h *zapHandler) Handle(_ context.Context, record slog.Record) error {
	entry := h.logger.Check(level(record.Level), record.Message)
	if entry == nil {
		return nil
	}
	var fields []zap.Field
	record.Attrs(func(attr slog.Attr) bool {
		fields = append(fields, h.field(attr))
		return true
	})
	entry.Write(fields...)
	return nil
}

func (h *zapHandler) field(attr slog.Attr) zap.Field {
	return zap.Any(h.group+attr.Key, attr.Value.Resolve().Any())
}

func (h *zapHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := make([]zap.Field, 0, len(attrs))
	for _, attr := range attrs {
		fields = append(fields, h.field(attr))
	}
	return &zapHandler{logger: h.logger.With(fields...), group: h.group}
}

func (h *zapHandler) WithGroup(name string) slog.Handler {
	return &zapHandler{logger: h.logger, group: h.group + name + "."}
}
