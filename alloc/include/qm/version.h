#ifndef QM_VERSION_H
#define QM_VERSION_H
/* The version of the sources, by the rules of semver.org; CMake reads it from here. While it is 0.x the minor number
 * rises with each change that concerns embedders: CHANGELOG.md lists them. */

#define QM_VERSION_MAJOR 0
#define QM_VERSION_MINOR 7
#define QM_VERSION_PATCH 0

/* A single number that rises with the version, for #if. */
#define QM_VERSION (QM_VERSION_MAJOR * 10000 + QM_VERSION_MINOR * 100 + QM_VERSION_PATCH)

#endif
