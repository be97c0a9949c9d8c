#ifndef QM_CONFIG_H
#define QM_CONFIG_H
/* The configuration under Relacy: magazines, and 4 harts, which are its threads. */
#define QM_MAX_HARTS 4
#define QM_PAGE_LOG2 12
#define QM_COUNT 1
#define QM_MAGAZINES 1
#define QM_CONFIGURATION qm_configuration_relacy
#endif
