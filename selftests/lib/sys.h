/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tests tell the kernel beside verbs: by writing to its files, and with modules of
 * their own.
 *
 * Functions return 0 or a negative errno.
 */
#ifndef SELFTESTS_LIB_SYS_H
#define SELFTESTS_LIB_SYS_H

#define TRACING		"/sys/kernel/tracing/"

/* As `printf %s TEXT >PATH`, of a file that is there */
int write_file(const char *path, const char *text);
/* Changes a parameter of softhca; -ENOENT if that is not loaded */
int softhca_parameter(const char *name, const char *value);
/* softhca_NAME of the folder @name beside the tests, built for the running kernel */
int module_load(const char *name, const char *parameters);
int module_unload(const char *name);

#endif
